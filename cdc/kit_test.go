package cdc_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc"
	"chorus/internal/brokertest"
	"chorus/internal/pgtest"
	"chorus/outbox"
)

// within bounds each wait of a test; the machine may be busy.
const within = 60 * time.Second

// childConfig makes this program a publisher that can be killed.
const childConfig = "CHORUS_CDC_TEST_CONFIG"

func TestMain(m *testing.M) {
	if text := os.Getenv(childConfig); text != "" {
		os.Exit(child(text))
	}
	os.Exit(m.Run())
}

func child(text string) int {
	var cfg cdc.Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	signal.Ignore(syscall.SIGXFSZ) // a test limits its files
	if err := cdc.Run(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)), cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// rig is a database with an outbox and a broker with a topic for it.
type rig struct {
	t      *testing.T
	dsn    string
	db     *pgx.Conn
	broker *brokertest.Broker
	cfg    cdc.Config
	next   atomic.Int64 // number of the last row
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigOn(t, pgtest.Database(t))
}

func newRigOn(t *testing.T, dsn string) *rig {
	t.Helper()
	r := &rig{t: t, dsn: dsn, broker: brokertest.Start(t, map[string]int32{"orders.events": 3, "inventory.events": 3})}
	r.db = r.connect()
	r.exec(outbox.Schema)
	var name string
	if err := r.db.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	r.cfg = cdc.Config{
		Sources:        []cdc.Source{{Name: "orders", DSN: dsn, Slot: "chorus_" + name}},
		Brokers:        []string{r.broker.Addr()},
		PruneAfter:     -1,
		StatusInterval: 50 * time.Millisecond,
		SpillDir:       t.TempDir(),
	}
	return r
}

func (r *rig) slot() string { return r.cfg.Sources[0].Slot }

func (r *rig) connect() *pgx.Conn {
	r.t.Helper()
	conn, err := pgx.Connect(r.t.Context(), r.dsn)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	mode := []any{pgx.QueryExecModeSimpleProtocol}
	if len(args) > 0 {
		mode = nil
	}
	if _, err := r.db.Exec(r.t.Context(), sql, append(mode, args...)...); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

// row is the outbox row number n; its payload is the number.
func row(n int64, key string) outbox.Row {
	id := [16]byte{15: 1}
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return outbox.Row{ID: id, AggregateType: "orders", AggregateID: key, Type: "OrderPlaced", Payload: []byte(strconv.FormatInt(n, 10))}
}

// insert commits n rows of a key in one transaction and returns their numbers.
func (r *rig) insert(n int, key string) []int64 {
	r.t.Helper()
	return r.insertBy(r.db, n, key)
}

func (r *rig) insertBy(db *pgx.Conn, n int, key string) []int64 {
	r.t.Helper()
	tx, err := db.Begin(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	numbers := r.add(tx, n, key)
	if err := tx.Commit(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return numbers
}

func (r *rig) add(tx pgx.Tx, n int, key string) []int64 {
	r.t.Helper()
	var numbers []int64
	var rows []outbox.Row
	for range n {
		k := r.next.Add(1)
		numbers = append(numbers, k)
		rows = append(rows, row(k, key))
	}
	r.append(tx, rows...)
	return numbers
}

func (r *rig) append(tx pgx.Tx, rows ...outbox.Row) {
	r.t.Helper()
	if err := outbox.Append(r.t.Context(), tx, rows...); err != nil {
		r.t.Fatal(err)
	}
}

// running is a publisher in this process.
type running struct {
	t      *testing.T
	addr   string
	cancel context.CancelFunc
	done   chan error
}

// start runs a publisher until stop, or until the test ends.
func (r *rig) start() *running {
	r.t.Helper()
	return r.startLogged(slog.New(slog.NewTextHandler(testWriter{r.t}, nil)))
}

func (r *rig) startLogged(log *slog.Logger) *running {
	r.t.Helper()
	cfg := r.cfg
	cfg.Listen = freeAddr(r.t)
	ctx, cancel := context.WithCancel(context.Background())
	p := &running{t: r.t, addr: cfg.Listen, cancel: cancel, done: make(chan error, 1)}
	go func() { p.done <- cdc.Run(ctx, log, cfg) }()
	r.t.Cleanup(func() {
		cancel()
		<-p.done
		close(p.done)
	})
	return p
}

// stop ends the publisher as SIGTERM does.
func (p *running) stop() {
	p.t.Helper()
	p.cancel()
	select {
	case err := <-p.done:
		if err != nil {
			p.t.Fatal(err)
		}
		p.done <- nil
	case <-time.After(within):
		p.t.Fatal("publisher does not stop")
	}
}

// process is a publisher that can be killed.
type process struct {
	*running
	cmd *exec.Cmd
}

func (r *rig) spawn() *process {
	r.t.Helper()
	return r.spawnProgram(os.Args[0])
}

func (r *rig) spawnProgram(program string) *process {
	r.t.Helper()
	cfg := r.cfg
	cfg.Listen = freeAddr(r.t)
	text, err := json.Marshal(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	p := &process{running: &running{t: r.t, addr: cfg.Listen}, cmd: exec.Command(program)}
	p.cmd.Env = append(os.Environ(), childConfig+"="+string(text))
	p.cmd.Stderr = testWriter{r.t}
	if err := p.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait()
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

type readiness struct {
	Ready   bool
	Sources []cdc.Status
}

// ready asks the publisher; ok is false when it does not answer.
func (p *running) ready() (r readiness, ok bool) {
	u := url.URL{Scheme: "http", Host: p.addr, Path: "/readyz"}
	resp, err := http.Get(u.String())
	if err != nil {
		return r, false
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		p.t.Fatal(err)
	}
	if r.Ready != (resp.StatusCode == http.StatusOK) {
		p.t.Fatalf("ready is %t with status %s", r.Ready, resp.Status)
	}
	return r, true
}

func (p *running) waitState(want cdc.State) {
	p.t.Helper()
	eventually(p.t, "state "+string(want), func() bool {
		r, ok := p.ready()
		return ok && r.Sources[0].State == want
	})
}

// waitStalled waits until the source is not ready for a reason that holds text.
func (p *running) waitStalled(text string) {
	p.t.Helper()
	var last readiness
	defer func() {
		if p.t.Failed() {
			p.t.Logf("last state: %+v", last)
		}
	}()
	eventually(p.t, "stalled by "+text, func() bool {
		r, ok := p.ready()
		last = r
		return ok && !r.Ready && strings.Contains(r.Sources[0].Reason, text)
	})
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s did not come about within %s", what, within)
		}
	}
}

// topic reads everything from the beginning of the orders' topic.
type topic struct {
	t      *testing.T
	client *kgo.Client
	all    []*kgo.Record
}

func (r *rig) read() *topic {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addr()), kgo.ConsumeTopics("orders.events", "inventory.events"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(client.Close)
	return &topic{t: r.t, client: client}
}

// until reads on until the condition holds.
func (c *topic) until(what string, done func() bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), within)
	defer cancel()
	for !done() {
		fetches := c.client.PollFetches(ctx)
		if ctx.Err() != nil {
			c.t.Fatalf("%s did not come about within %s; %d records read", what, within, len(c.all))
		}
		fetches.EachRecord(func(r *kgo.Record) { c.all = append(c.all, r) })
	}
}

func (c *topic) wait(n int) {
	c.t.Helper()
	c.until(fmt.Sprintf("%d records", n), func() bool { return len(c.all) >= n })
}

// number is the row's number, which is its payload up to a blank.
func number(r *kgo.Record) int64 {
	text, _, _ := strings.Cut(string(r.Value), " ")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// complete waits for all the rows, and checks that each key's rows arrived for
// the first time in the order of want. It returns how many came again.
func (c *topic) complete(want map[string][]int64) (repeats int) {
	c.t.Helper()
	total := 0
	for _, numbers := range want {
		total += len(numbers)
	}
	seen := map[int64]bool{}
	read := 0
	c.until(fmt.Sprintf("%d different records", total), func() bool {
		for ; read < len(c.all); read++ {
			seen[number(c.all[read])] = true
		}
		return len(seen) >= total
	})
	got := map[string][]int64{}
	first := map[int64]bool{}
	for _, r := range c.all {
		if n := number(r); first[n] {
			repeats++
		} else {
			first[n] = true
			got[string(r.Key)] = append(got[string(r.Key)], n)
		}
	}
	for key, numbers := range want {
		for i, n := range numbers {
			if got[key][i] != n {
				c.t.Fatalf("key %s: record %d is row %d, want %d", key, i, got[key][i], n)
			}
		}
	}
	return repeats
}

// confirmed is the slot's position, or 0 while there is no slot.
func (r *rig) confirmed() (lsn int64) {
	r.t.Helper()
	if err := r.db.QueryRow(r.t.Context(), `SELECT coalesce(max(confirmed_flush_lsn - '0/0'), 0)::bigint FROM pg_replication_slots WHERE slot_name = $1`,
		r.slot()).Scan(&lsn); err != nil {
		r.t.Fatal(err)
	}
	return lsn
}

// end is the end of the log.
func (r *rig) end() (lsn int64) {
	r.t.Helper()
	if err := r.db.QueryRow(r.t.Context(), `SELECT (pg_current_wal_lsn() - '0/0')::bigint`).Scan(&lsn); err != nil {
		r.t.Fatal(err)
	}
	return lsn
}

// waitConfirmed waits until the slot has reached a position.
func (r *rig) waitConfirmed(lsn int64) {
	r.t.Helper()
	eventually(r.t, "confirmation", func() bool { return r.confirmed() >= lsn })
}

// metric reads the value of a series.
func (p *running) metric(series string) string {
	p.t.Helper()
	resp, err := http.Get("http://" + p.addr + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), series+" ")
	value, _, _ := strings.Cut(after, "\n")
	return value
}
