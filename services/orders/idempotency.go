package orders

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/event"
	"chorus/internal/participant"
)

// Keyed is the header Idempotency-Key. The rule for odd ones (API-05): 1 to 255 visible ASCII characters without spaces; double quotes around the whole
// are the header's and not the key's; capitals matter; a header that is there and blank, or there twice, is refused, because whoever sent
// it believes to be protected.
type Keyed struct {
	Key string `header:"Idempotency-Key" doc:"1 to 255 visible ASCII characters. Names this request, so that it can be repeated without a second order."`
}

const keyHeader = "Idempotency-Key"

// Resolve checks and unquotes the key.
func (k *Keyed) Resolve(ctx huma.Context) []error {
	var values []string
	ctx.EachHeader(func(name, value string) {
		if http.CanonicalHeaderKey(name) == keyHeader {
			values = append(values, value)
		}
	})
	if len(values) == 0 {
		return nil
	}
	key := values[0]
	if len(key) >= 2 && key[0] == '"' && key[len(key)-1] == '"' {
		key = key[1 : len(key)-1]
	}
	odd := func(c rune) bool { return c <= ' ' || c > '~' || c == '"' }
	why := ""
	switch {
	case len(values) > 1:
		why = "is there more than once"
	case strings.TrimSpace(key) == "":
		why = "is blank"
	case len(key) > 255:
		why = "is longer than 255 characters"
	case strings.ContainsFunc(key, odd):
		why = "must be visible ASCII characters without spaces and quotes"
	}
	if why != "" {
		return []error{malformed("header."+keyHeader, why)}
	}
	k.Key = key
	return nil
}

// claim is a request that is to be done once. The zero value claims nothing.
type claim struct {
	scope []byte // whose key at which path
	body  []byte // what was asked, whatever its spelling
}

// claim scopes the key to customer and path (API-04): nobody meets another's answers.
func (k Keyed) claim(path, customer string, request any) claim {
	if k.Key == "" {
		return claim{}
	}
	meaning, err := json.Marshal(request)
	if err != nil {
		panic(fmt.Sprintf("a request cannot be written: %v", err)) // it was read from JSON
	}
	scope := sha256.Sum256([]byte(path + "\x00" + k.Key + "\x00" + customer))
	body := sha256.Sum256(meaning)
	return claim{scope[:], body[:]}
}

func (c claim) given() bool { return c.scope != nil }

// lock is the advisory lock of the key while its request commits.
func (c claim) lock() int64 { return int64(binary.BigEndian.Uint64(c.scope)) }

// requestID names the request: after its key if it has one, else at random.
func (c claim) requestID(at time.Time) event.ID {
	if !c.given() {
		return participant.NewID()
	}
	return event.Derive(at, event.Orders, 0, "idempotency key "+string(c.scope), 0)
}

// errKeyTaken says that another request has, or is about to have, the key.
var errKeyTaken = errors.New("the idempotency key is taken")

// claimKey puts the answer under its key: $12 scope, $13 body, $14 answer, $15 lock, $16 lifetime. Without the lock, or when an answer
// is there that has not expired, it returns no row. To wait for the other request instead would hold a connection for each of a thousand impatient clicks.
const claimKey = `
	WITH claimed AS (
		INSERT INTO idempotency AS i (scope, body, response, created_at)
		SELECT $12, $13, $14::jsonb, now() WHERE pg_try_advisory_xact_lock($15)
		ON CONFLICT (scope) DO UPDATE SET body = excluded.body, response = excluded.response, created_at = excluded.created_at
		WHERE i.created_at <= now() - $16::interval
		RETURNING 1)`

const readStored = `SELECT body, response FROM idempotency WHERE scope = $1 AND created_at > now() - $2::interval`

// stored is an earlier request with its answer. Only successes are stored: an error may be corrected under the same key.
type stored struct {
	body     []byte
	response Accepted
}

// scanStored returns nil when there is none.
func scanStored(row pgx.Row) (*stored, error) {
	var s stored
	switch err := row.Scan(&s.body, &s.response); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &s, nil
}

// replay gives the earlier answer to the same request.
func (s *stored) replay(c claim) (*placeOutput, error) {
	if !bytes.Equal(s.body, c.body) {
		return nil, huma.Error422UnprocessableEntity("the idempotency key was used for another request",
			&huma.ErrorDetail{Location: "header." + keyHeader, Message: "belongs to a request with another body"})
	}
	return answer(s.response, "true"), nil
}

// lost answers a request that met another under its key.
func (a *api) lost(ctx context.Context, c claim) (*placeOutput, error) {
	earlier, err := scanStored(a.db.QueryRow(ctx, readStored, c.scope, a.cfg.KeyLifetime))
	switch {
	case err != nil:
		return nil, a.trouble(ctx, "read the answer under the key", err)
	case earlier != nil:
		return earlier.replay(c)
	}
	return nil, huma.ErrorWithHeaders(huma.Error409Conflict("a request under this idempotency key is still running"),
		http.Header{"Retry-After": {"1"}})
}

// pruneSome deletes the oldest expired answers, at most limit. Rows that another replica deletes are passed over.
func pruneSome(ctx context.Context, db *pgxpool.Pool, lifetime time.Duration, limit int) (int, error) {
	tag, err := db.Exec(ctx, `
		DELETE FROM idempotency WHERE scope IN (
			SELECT scope FROM idempotency WHERE created_at <= now() - $1::interval
			ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED)`, lifetime, limit)
	if err != nil {
		return 0, fmt.Errorf("delete expired idempotency keys: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
