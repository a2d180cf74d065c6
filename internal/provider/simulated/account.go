package simulated

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A Balance is what a customer has at a payment processor, in minor units.
type Balance struct {
	Currency string `json:"currency"`
	Funded   int64  `json:"funded"`
	Balance  int64  `json:"balance"`
}

// balances lists a customer's accounts at p. A customer who was never seen has none yet.
func (s *store) balances(ctx context.Context, p *provider, customer string) ([]Balance, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT currency, funded, balance FROM account WHERE provider = $1 AND customer = $2 ORDER BY currency`,
		p.name, customer)
	if err != nil {
		return nil, fmt.Errorf("read balances at %s: %w", p.name, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Balance])
	if err != nil {
		return nil, fmt.Errorf("read balances at %s: %w", p.name, err)
	}
	return found, nil
}

// fund puts in or takes out what brings the balance to the one asked for.
func (s *store) fund(ctx context.Context, p *provider, customer, currency string, balance int64) (Balance, error) {
	b := Balance{Currency: currency}
	err := s.pool.QueryRow(ctx, `
		INSERT INTO account (provider, customer, currency, funded, balance) VALUES ($1, $2, $3, $4, $4)
		ON CONFLICT (provider, customer, currency) DO UPDATE
		SET funded = account.funded + excluded.balance - account.balance, balance = excluded.balance
		RETURNING funded, balance`, p.name, customer, currency, balance).Scan(&b.Funded, &b.Balance)
	if err != nil {
		return Balance{}, fmt.Errorf("fund account at %s: %w", p.name, err)
	}
	return b, nil
}
