package intent_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/intent"
	"chorus/internal/pg"
	"chorus/internal/pgtest"
	"chorus/internal/provider"
)

// patience bounds what a test waits for; the machine may be busy.
const patience = 30 * time.Second

// answered is the table of what came through the door.
const answered = `CREATE TABLE answered (id bigint GENERATED ALWAYS AS IDENTITY, order_no bigint, step text, op text, kind text,
	reference text, score integer, reason text, causation uuid, hop integer, key text)`

// bench is a service's database with the result table and a table of what came through the door.
type bench struct {
	t    *testing.T
	dsn  string
	pool *pgxpool.Pool
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	dsn := pgtest.Database(t)
	if err := pg.Migrate(t.Context(), dsn, intent.Schema()); err != nil {
		t.Fatal(err)
	}
	pool, err := pg.Open(t.Context(), dsn, pg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := &bench{t: t, dsn: dsn, pool: pool}
	b.exec(answered)
	return b
}

func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.pool.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
}

func value[V any](b *bench, sql string, args ...any) (v V) {
	b.t.Helper()
	if err := b.pool.QueryRow(b.t.Context(), sql, args...).Scan(&v); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// door is the service behind the calls: it writes each answer into its table.
type door struct {
	pool  *pgxpool.Pool
	mu    sync.Mutex // guards fault
	fault func(intent.Answer) error
}

func (d *door) Answer(ctx context.Context, answers []intent.Answer, fence func(context.Context, pgx.Tx) error) error {
	return pg.InTx(ctx, d.pool, "take answers", func(tx pgx.Tx) error {
		for _, a := range answers {
			d.mu.Lock()
			fault := d.fault
			d.mu.Unlock()
			if fault != nil {
				if err := fault(a); err != nil {
					return err
				}
			}
			o := a.Answered.Outcome
			if _, err := tx.Exec(ctx, `INSERT INTO answered (order_no, step, op, kind, reference, score, reason, causation, hop, key)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, int64(a.Order), a.Answered.Step, a.Answered.Op, o.Kind,
				o.Reference, o.Score, o.Reason, [16]byte(a.Cause.CausationID), a.Cause.Hop, a.Cause.Key); err != nil {
				return err
			}
		}
		return fence(ctx, tx)
	})
}

// quick is Defaults at a thousandth of the waits that matter.
func quick() intent.Config {
	cfg := intent.Defaults()
	cfg.Backoff, cfg.BackoffCap = 2*time.Millisecond, 8*time.Millisecond
	cfg.AskAfter, cfg.AskCap = time.Millisecond, 8*time.Millisecond
	cfg.Rest = 50 * time.Millisecond
	return cfg
}

// provided is a provider at url, as it stands for every step of a test.
func provided(t testing.TB, url string, timeout time.Duration) *provider.Set {
	t.Helper()
	return configured(t, "pay", url, "    timeout: "+timeout.String()+"\n")
}

// configured is one provider in the form that chorus providers have, with more keys.
func configured(t testing.TB, name, url, more string) *provider.Set {
	t.Helper()
	text := strings.NewReplacer("NAME", name, "URL", url).Replace(`
routes:
  stock: [{to: NAME}]
  screening: [{to: NAME}]
  shipment: [{to: NAME}]
  payment: [{to: NAME}]
providers:
  NAME:
    url: "URL/NAME/charges"
    ask: {url: "URL/NAME/charges/by-key/{key}"}
    cancel: {url: "URL/NAME/charges/by-key/{key}/cancel"}
    revert: {method: POST, url: "URL/NAME/charges/{reference}/undo"}
`) + more
	return parsed(t, text)
}

func parsed(t testing.TB, text string) *provider.Set {
	t.Helper()
	file, err := provider.Parse("test.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	set, err := file.Set("http://127.0.0.1:1", 5*time.Second, event.PaymentStep)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// works is running workers.
type works struct {
	*intent.Workers
	door *door
	log  *syncBuffer
	stop func()
}

// start runs workers until stop is called or the test ends.
func (b *bench) start(cfg intent.Config, providers *provider.Set) *works {
	b.t.Helper()
	d := &door{pool: b.pool}
	var log syncBuffer
	w, err := intent.New(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), cfg, b.pool, providers, d)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("workers: %v", err)
		}
	})
	b.t.Cleanup(func() {
		stop()
		if b.t.Failed() {
			b.t.Log(log.String())
		}
	})
	return &works{Workers: w, door: d, log: &log, stop: stop}
}

// listens waits until the workers hear of what others plan.
func (w *works) listens(b *bench) {
	b.t.Helper()
	b.until("the workers listen", func() bool { return strings.Contains(w.log.String(), "listening for due calls of other") })
}

type syncBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

type charge struct {
	Order  event.OrderNo `json:"order"`
	Amount int           `json:"amount"`
}

var cause = event.Derive(time.UnixMilli(1_700_000_000_000), event.Shipping, 1, "ShipmentScheduled", 0)

func do(order event.OrderNo) intent.Planned {
	return intent.Planned{Order: order, CausationID: cause, Hop: 3, Intent: decision.Intent{
		Step: event.PaymentStep, Op: decision.Do, Provider: "pay", Body: charge{order, 100},
	}}
}

func undo(order event.OrderNo) intent.Planned {
	return intent.Planned{Order: order, CausationID: cause, Hop: 3, Intent: decision.Intent{
		Step: event.PaymentStep, Op: decision.Undo, Provider: "pay", Reference: "ch_1", Reason: "CUSTOMER",
	}}
}

func (b *bench) plan(planned ...intent.Planned) {
	b.t.Helper()
	if err := pg.InTx(b.t.Context(), b.pool, "plan", func(tx pgx.Tx) error { return intent.Plan(b.t.Context(), tx, planned) }); err != nil {
		b.t.Fatal(err)
	}
}

// until waits for a condition.
func (b *bench) until(what string, is func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			b.t.Fatalf("waited %s until %s", patience, what)
		}
		time.Sleep(time.Millisecond)
	}
}

// answers waits for n answers and returns them as lines.
func (b *bench) answers(n int) []string {
	b.t.Helper()
	b.until(fmt.Sprintf("there are %d answers", n), func() bool { return value[int](b, "SELECT count(*) FROM answered") >= n })
	rows, err := b.pool.Query(b.t.Context(), `SELECT order_no || ' ' || step || ' ' || op || ' ' || kind || ' ' ||
		COALESCE(NULLIF(reference, ''), reason) FROM answered ORDER BY id`)
	if err != nil {
		b.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.t.Fatal(err)
	}
	return lines
}

// trail is the exchanges of an order's calls: kind and result of each.
func (b *bench) trail(order event.OrderNo) (lines []string) {
	b.t.Helper()
	calls, err := intent.Calls(b.t.Context(), b.pool, order)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range calls {
		for _, a := range c.Attempts {
			result := string(a.Result)
			if a.EndedAt == nil {
				result = "open"
			}
			lines = append(lines, fmt.Sprintf("%s %s", a.Kind, result))
		}
	}
	return lines
}
