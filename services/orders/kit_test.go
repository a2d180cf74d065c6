package orders

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/inbox"
	"chorus/internal/audit"
	"chorus/internal/codec"
	"chorus/internal/participant"
	"chorus/internal/pg"
	"chorus/internal/pgtest"
	"chorus/outbox"
	"chorus/services/orders/order"
)

// patience bounds every wait, on a machine that is busy with other tests.
const patience = time.Minute

// rig is the API on a real database. Its door hears no topics.
type rig struct {
	t     testing.TB
	super string // how a superuser logs in
	dsn   string // as the role of the service
	db    *pgxpool.Pool
	door  *participant.Door[order.State]
	cfg   Config
	api   *api
	url   string
}

// newDatabase makes a database as a deploy step does, and returns how the service's role logs in.
func newDatabase(t testing.TB) (super, service string) {
	t.Helper()
	super = pgtest.Database(t)
	owner, err := pg.Open(t.Context(), super, pg.Options{MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	for _, ddl := range []string{outbox.Schema, inbox.Schema} {
		if _, err := owner.Exec(t.Context(), ddl); err != nil {
			t.Fatal(err)
		}
	}
	for _, set := range []fs.FS{audit.Schema(), participant.Schema(), Schema()} {
		if err := pg.Migrate(t.Context(), super, set); err != nil {
			t.Fatal(err)
		}
	}
	// A role with the rights of D3 and no more: it cannot create, truncate or own anything.
	var role string
	if err := owner.QueryRow(t.Context(), `SELECT 'svc_' || substr(md5(current_database()), 1, 12)`).Scan(&role); err != nil {
		t.Fatal(err)
	}
	if _, err := owner.Exec(t.Context(), fmt.Sprintf(`
		CREATE ROLE %[1]s LOGIN PASSWORD 'x';
		GRANT USAGE ON SCHEMA public TO %[1]s;
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO %[1]s;
		GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO %[1]s`, role)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		db, err := pg.Open(context.Background(), super, pg.Options{MaxConns: 1})
		if err != nil {
			t.Error(err)
			return
		}
		defer db.Close()
		if _, err := db.Exec(context.Background(), fmt.Sprintf(`DROP OWNED BY %[1]s; DROP ROLE %[1]s`, role)); err != nil {
			t.Error(err)
		}
	})
	dsn, err := pg.WithDatabase(super, "", role, "x")
	if err != nil {
		t.Fatal(err)
	}
	return super, dsn
}

func newRig(t testing.TB, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t}
	r.super, r.dsn = newDatabase(t)
	if change != nil {
		change(&r.cfg)
	}
	var err error
	if r.cfg, err = r.cfg.withDefaults(); err != nil {
		t.Fatal(err)
	}
	r.serve()
	return r
}

// serve starts an instance of the API; the rig then speaks with this one.
func (r *rig) serve() {
	r.t.Helper()
	db, err := pg.Open(r.t.Context(), r.dsn, pg.Options{MaxConns: 8})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(db.Close)
	log := slog.New(slog.DiscardHandler)
	r.db, r.door = db, participant.New(r.t.Context(), log, db, codec.Embedded(), r.cfg.spec())
	r.api = newAPI(log, r.db, r.door, r.cfg)
	server := httptest.NewServer(r.api)
	r.t.Cleanup(server.Close)
	r.url = server.URL
}

// ddl runs statements as a superuser.
func (r *rig) ddl(sql string) {
	r.t.Helper()
	db, err := pg.Open(r.t.Context(), r.super, pg.Options{MaxConns: 1})
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(r.t.Context(), sql); err != nil {
		r.t.Fatal(err)
	}
}

// onInsert has the server run a statement of PL/pgSQL before each row that is inserted into table, until the returned function is called.
func (r *rig) onInsert(table, statement string) (stop func()) {
	r.t.Helper()
	r.ddl(fmt.Sprintf(`
		CREATE FUNCTION %[1]s_fault() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN %[2]s; RETURN NEW; END $$;
		CREATE TRIGGER fault BEFORE INSERT ON %[1]s FOR EACH ROW EXECUTE FUNCTION %[1]s_fault()`, table, statement))
	return func() {
		r.t.Helper()
		r.ddl(fmt.Sprintf(`DROP TRIGGER fault ON %[1]s; DROP FUNCTION %[1]s_fault()`, table))
	}
}

// reply is an answer with its body read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) String() string { return fmt.Sprintf("%d %s", r.status, clip(string(r.body), 2000)) }

// problem reads the answer as RFC 9457 has it.
func (r reply) problem(t testing.TB) (p struct {
	Status int
	Title  string
	Detail string
	Errors []struct{ Location, Message string }
}) {
	t.Helper()
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q, want application/problem+json: %s", got, r)
	}
	if err := json.Unmarshal(r.body, &p); err != nil {
		t.Fatalf("%v: %s", err, r)
	}
	if p.Status != r.status || p.Title == "" {
		t.Errorf("status %d, in the problem %d %q", r.status, p.Status, p.Title)
	}
	return p
}

// names reports whether the problem has a fault at the location.
func (r reply) names(t testing.TB, location string) bool {
	t.Helper()
	for _, f := range r.problem(t).Errors {
		if f.Location == location && f.Message != "" {
			return true
		}
	}
	return false
}

func read[T any](t testing.TB, r reply) (v T) {
	t.Helper()
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("%v: %s", err, r)
	}
	return v
}

// call sends a request. headers are name, value, name, value.
func (r *rig) call(method, path, body string, headers ...string) reply {
	r.t.Helper()
	got, err := r.try(method, path, body, headers...)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// try is call for goroutines.
func (r *rig) try(method, path, body string, headers ...string) (reply, error) {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, reader)
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	var buf bytes.Buffer
	_, err = buf.ReadFrom(resp.Body)
	return reply{resp.StatusCode, resp.Header, buf.Bytes()}, err
}

// sell puts products into the catalogue: code, price, currency.
func (r *rig) sell(products ...[3]string) {
	r.t.Helper()
	list := Products{}
	for _, p := range products {
		list = append(list, Product{SKU: p[0], Name: p[0], Price: p[1], Currency: p[2]})
	}
	if got := r.call("PUT", "/v1/products", text(r.t, list)); got.status != 200 {
		r.t.Fatalf("set products: %s", got)
	}
}

func text(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// place places an order of one line each and returns the answer.
func (r *rig) place(customer string, items ...Item) Accepted {
	r.t.Helper()
	got := r.call("POST", "/v1/orders", text(r.t, Cart{Customer: customer, Items: items, Shipping: "domestic"}))
	if got.status != 202 {
		r.t.Fatalf("place: %s", got)
	}
	return read[Accepted](r.t, got)
}

// count counts rows.
func (r *rig) count(sql string, args ...any) (n int) {
	r.t.Helper()
	if err := r.db.QueryRow(r.t.Context(), sql, args...).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// placements is what must be equal in number: orders, states and facts.
func (r *rig) placements() [3]int {
	r.t.Helper()
	return [3]int{
		r.count(`SELECT count(*) FROM orders`), r.count(`SELECT count(*) FROM order_states`),
		r.count(`SELECT count(*) FROM outbox WHERE type = 'OrderPlaced'`),
	}
}

// until waits for a condition.
func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !met() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
