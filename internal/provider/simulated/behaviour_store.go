package simulated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/jackc/pgx/v5"
)

// loadRules reads the rules in force of one provider. Its chances are drawn from a source of its own, which follows from
// the seed and the provider's name.
func (s *store) loadRules(ctx context.Context, p *provider, seed int64) (*rules, error) {
	var salt uint64
	for _, c := range []byte(p.name) {
		salt = salt*31 + uint64(c)
	}
	r := &rules{rand: rand.New(rand.NewPCG(uint64(seed), salt))}
	rows, err := s.pool.Query(ctx, `
		SELECT id, rule, COALESCE(remaining, 0) FROM behaviour
		WHERE provider = $1 AND (remaining IS NULL OR remaining > 0) ORDER BY id`, p.name)
	if err != nil {
		return nil, fmt.Errorf("load behaviour of %s: %w", p.name, err)
	}
	r.set, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (rule, error) {
		var id, remaining int64
		var data []byte
		if err := row.Scan(&id, &data, &remaining); err != nil {
			return rule{}, err
		}
		b := rule{id: id}
		if err := json.Unmarshal(data, &b.Behaviour); err != nil {
			return rule{}, err
		}
		b.Calls = remaining
		return b, nil
	})
	if err != nil {
		return nil, fmt.Errorf("load behaviour of %s: %w", p.name, err)
	}
	return r, nil
}

// change stores a rule and puts it in force, or takes one away. Both happen under the lock, so that the database and the
// memory of the process end with the same of two changes made at once.
func (s *store) change(ctx context.Context, p *provider, r *rules, b Behaviour) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	without := func(o rule) bool { return o.Operation == b.Operation && o.Order == b.Order }
	if b.clears() {
		_, err := s.pool.Exec(ctx, `DELETE FROM behaviour WHERE provider = $1 AND operation = $2 AND order_number = $3`,
			p.name, b.Operation, b.Order)
		if err != nil {
			return fmt.Errorf("clear behaviour of %s: %w", p.name, err)
		}
		r.set = slices.DeleteFunc(r.set, without)
		return nil
	}
	data, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("encode behaviour: %w", err)
	}
	var id int64
	err = s.pool.QueryRow(ctx, `
		INSERT INTO behaviour (provider, operation, order_number, rule, remaining)
		VALUES ($1, $2, $3, $4, NULLIF($5::bigint, 0))
		ON CONFLICT (provider, operation, order_number) DO UPDATE
		SET id = excluded.id, rule = excluded.rule, remaining = excluded.remaining
		RETURNING id`, p.name, b.Operation, b.Order, string(data), b.Calls).Scan(&id)
	if err != nil {
		return fmt.Errorf("store behaviour of %s: %w", p.name, err)
	}
	r.set = append(slices.DeleteFunc(r.set, without), rule{b, id})
	return nil
}

func (s *store) clear(ctx context.Context, p *provider, r *rules) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := s.pool.Exec(ctx, `DELETE FROM behaviour WHERE provider = $1`, p.name); err != nil {
		return fmt.Errorf("clear behaviour of %s: %w", p.name, err)
	}
	r.set = nil
	return nil
}

// orderOf finds the order that a key or an id belongs to, 0 when it is not known, for rules that ask for an order.
func (s *store) orderOf(ctx context.Context, p *provider, c *command) (int64, error) {
	column, value := "key", c.key
	if c.op == undo {
		column, value = "id", c.id
	}
	var order int64
	err := s.pool.QueryRow(ctx, `SELECT order_number FROM effect WHERE provider = $1 AND `+column+` = $2 AND `+column+` <> ''`,
		p.name, value).Scan(&order)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("find order of %s %s: %w", p.name, value, err)
	}
	return order, nil
}
