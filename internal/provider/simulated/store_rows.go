package simulated

import (
	"encoding/hex"
	"time"
)

// The rows as the statements below read them. Bytes travel as hexadecimal text with PostgreSQL's prefix.

type effectRow struct {
	Key             string     `json:"key"`
	ID              string     `json:"id"`
	OrderNumber     int64      `json:"order_number"`
	State           state      `json:"state"`
	Tombstone       bool       `json:"tombstone"`
	Fingerprint     string     `json:"fingerprint"`
	Customer        string     `json:"customer"`
	Currency        string     `json:"currency"`
	Amount          int64      `json:"amount"`
	Units           int64      `json:"units"`
	Score           int        `json:"score"`
	RefusalStatus   int        `json:"refusal_status"`
	RefusalCode     string     `json:"refusal_code"`
	RefusalMessage  string     `json:"refusal_message"`
	UndoKey         string     `json:"undo_key"`
	UndoFingerprint string     `json:"undo_fingerprint"`
	UndoReason      string     `json:"undo_reason"`
	CreatedAt       time.Time  `json:"created_at"`
	UndoneAt        *time.Time `json:"undone_at"`
}

func rowOf(e *effect) effectRow {
	return effectRow{
		Key: e.Key, ID: e.ID, OrderNumber: e.Order, State: e.State, Tombstone: e.Tombstone,
		Fingerprint: `\x` + hex.EncodeToString(e.Fingerprint), Customer: e.Customer, Currency: e.Currency,
		Amount: e.Amount, Units: e.Units, Score: e.Score, RefusalStatus: e.Refusal.Status,
		RefusalCode: e.Refusal.Code, RefusalMessage: e.Refusal.Message, UndoKey: e.UndoKey,
		UndoFingerprint: `\x` + hex.EncodeToString(e.UndoFingerprint), UndoReason: e.UndoReason,
		CreatedAt: e.CreatedAt, UndoneAt: e.UndoneAt,
	}
}

const insertEffects = `
	INSERT INTO effect (provider, ` + effectColumns + `)
	SELECT $1, ` + effectColumns + `
	FROM json_to_recordset($2::json) AS r (key text, id text, order_number bigint, state text, tombstone boolean,
		fingerprint bytea, customer text, currency text, amount bigint, units bigint, score integer,
		refusal_status integer, refusal_code text, refusal_message text, undo_key text, undo_fingerprint bytea,
		undo_reason text, created_at timestamptz, undone_at timestamptz)
	ORDER BY key`

// What a request asked for never changes once it is stored; what became of it does.
const updateEffects = `
	UPDATE effect SET state = r.state, tombstone = r.tombstone, undo_key = r.undo_key,
		undo_fingerprint = r.undo_fingerprint, undo_reason = r.undo_reason, undone_at = r.undone_at
	FROM json_to_recordset($2::json) AS r (key text, state text, tombstone boolean, undo_key text,
		undo_fingerprint bytea, undo_reason text, undone_at timestamptz)
	WHERE effect.provider = $1 AND effect.key = r.key`

type accountRow struct {
	Customer string `json:"customer"`
	Currency string `json:"currency"`
	Funded   int64  `json:"funded"`
	Balance  int64  `json:"balance"`
}

const insertAccounts = `
	INSERT INTO account (provider, customer, currency, funded, balance)
	SELECT $1, customer, currency, funded, balance
	FROM json_to_recordset($2::json) AS r (customer text, currency text, funded bigint, balance bigint)
	ORDER BY customer, currency`

// updateAccounts is written as an insert that conflicts, because the conflict is found by the primary key whatever the planner believes; a join
// was planned as a scan of all accounts. The rows are there: they are locked.
const updateAccounts = `
	INSERT INTO account (provider, customer, currency, funded, balance)
	SELECT $1, customer, currency, funded, balance
	FROM json_to_recordset($2::json) AS r (customer text, currency text, funded bigint, balance bigint)
	ORDER BY customer, currency
	ON CONFLICT (provider, customer, currency) DO UPDATE SET balance = excluded.balance`

type callRow struct {
	Operation   string    `json:"operation"`
	Key         string    `json:"key"`
	OrderNumber int64     `json:"order_number"`
	Status      int       `json:"status"`
	Fault       string    `json:"fault"`
	At          time.Time `json:"at"`
}

const insertCalls = `
	INSERT INTO request_log (provider, operation, key, order_number, status, fault, at)
	SELECT $1, operation, key, order_number, status, fault, at
	FROM json_to_recordset($2::json) AS r (operation text, key text, order_number bigint, status integer, fault text,
		at timestamptz)`
