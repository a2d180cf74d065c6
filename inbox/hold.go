package inbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// errOvertakes has a batch run again one by one, so that a key's dead letter is there before its next fact is looked at.
var errOvertakes = errors.New("a fact was set aside and a later one of its key was handled in the same batch")

// heldSet are the keys of a batch that have a dead letter; nil when keys are not held. A key stays in one partition of its topic, which has one owner, so nobody else
// adds letters of these keys meanwhile; and if one is closed meanwhile, what is set aside behind it is released by the next round of releaseLoop.
type heldSet map[string]bool

func (h heldSet) before(it *item) bool { return h[string(it.record.Key)] }

func (h heldSet) add(it *item) {
	if h != nil {
		h[string(it.record.Key)] = true
	}
}

const heldSQL = `
SELECT DISTINCT key FROM dead_letters
WHERE consumer = $1 AND topic = $2 AND state = 'open' AND sha256(key) = ANY ($3)`

// heldKeys tells which keys of a batch have a dead letter already, whatever its reason.
func (l *lane) heldKeys(ctx context.Context, tx pgx.Tx, items []item) (heldSet, error) {
	if !l.c.cfg.HoldKeys {
		return nil, nil
	}
	seen := make(heldSet, len(items))
	var hashes [][]byte
	for _, it := range items {
		if key := it.record.Key; len(key) > 0 && !seen[string(key)] {
			seen[string(key)] = true
			hash := sha256.Sum256(key)
			hashes = append(hashes, hash[:])
		}
	}
	held := heldSet{}
	rows, _ := tx.Query(ctx, heldSQL, l.c.cfg.Consumer, l.p.Topic, hashes)
	var key []byte
	if _, err := pgx.ForEachRow(rows, []any{&key}, func() error {
		held[string(key)] = true
		return nil
	}); err != nil {
		return nil, fmt.Errorf("ask which of %d keys are held: %w", len(hashes), err)
	}
	return held, nil
}

// overtakes tells whether a fact got a dead verdict and a later one of its key did not wait for it.
func overtakes(facts []Fact, verdicts []Verdict) bool {
	dead := map[string]bool{}
	for i, v := range verdicts {
		if dead[facts[i].Key] {
			return true
		}
		if v.Outcome == Dead {
			dead[facts[i].Key] = true
		}
	}
	return false
}

// checkFirst refuses a held letter while an earlier one of its key is open.
func checkFirst(ctx context.Context, tx pgx.Tx, l DeadLetter) error {
	var behind bool
	err := tx.QueryRow(ctx, `
SELECT EXISTS (SELECT FROM dead_letters
    WHERE consumer = $1 AND topic = $2 AND state = 'open' AND sha256(key) = sha256($3) AND id < $4)`,
		l.Consumer, l.Record.Topic, l.Record.Key, l.ID).Scan(&behind)
	switch {
	case err != nil:
		return fmt.Errorf("ask what dead letter %d is behind: %w", l.ID, err)
	case behind:
		return ErrHeld
	}
	return nil
}

// checkEarlier refuses a letter while an earlier fact of its key in the same topic is a dead letter: handled now, it would overtake that one.
func checkEarlier(ctx context.Context, tx pgx.Tx, l DeadLetter) error {
	var behind int64
	err := tx.QueryRow(ctx, `
SELECT coalesce(min(id), 0) FROM dead_letters
WHERE consumer = $1 AND topic = $2 AND state = 'open' AND sha256(key) = sha256($3) AND topic_id = $4 AND partition = $5 AND "offset" < $6`,
		l.Consumer, l.Record.Topic, l.Record.Key, l.Record.TopicID, l.Record.Partition, l.Record.Offset).Scan(&behind)
	switch {
	case err != nil:
		return fmt.Errorf("ask what dead letter %d is behind: %w", l.ID, err)
	case behind != 0:
		return fmt.Errorf("behind dead letter %d: %w", behind, ErrHeld)
	}
	return nil
}
