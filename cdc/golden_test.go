package cdc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chorus/cdc"
	"chorus/internal/brokertest"
	"chorus/internal/pgtest"
)

// TestGolden runs what was put to a real Debezium, and compares what comes out
// record by record: testdata/golden has the cases, README.md there their form,
// and exceptions.txt the differences that are meant, each with its reason. More
// cases are taken from the folder that CHORUS_GOLDEN names.
func TestGolden(t *testing.T) {
	t.Parallel()
	exceptions := readExceptions(t)
	pool := &databasePool{t: t}
	run := func(root string, foreign bool) {
		for _, dir := range findCases(t, root) {
			t.Run(filepath.Base(dir), func(t *testing.T) {
				t.Parallel()
				c := readCase(t, dir)
				c.foreign, c.exceptions, c.pool = foreign, exceptions.of(c.name), pool
				c.run()
			})
		}
	}
	for _, e := range exceptions {
		if found, err := filepath.Glob(filepath.Join("testdata/golden/cases", e.pattern)); len(found) == 0 || err != nil {
			t.Errorf("exceptions.txt names %s, which is no case (%v)", e.pattern, err)
		}
	}
	run("testdata/golden", false)
	if more := os.Getenv("CHORUS_GOLDEN"); more != "" {
		run(more, true)
	}
}

// findCases lists the folders with a connector.json, in root or its cases.
func findCases(t *testing.T, root string) []string {
	t.Helper()
	var dirs []string
	for _, pattern := range []string{"*/connector.json", "cases/*/connector.json"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			dirs = append(dirs, filepath.Dir(f))
		}
	}
	if len(dirs) == 0 {
		t.Fatalf("no case in %s", root)
	}
	return dirs
}

// goldenCase is one case while it runs.
type goldenCase struct {
	t          *testing.T
	name       string
	connector  map[string]any
	setup      []statement
	changes    []statement
	expected   []goldenRecord
	outcome    string // ok, FAILED, STUCK or REJECTED
	needsOtel  bool
	foreign    bool // of CHORUS_GOLDEN: to go on where Debezium ends is reported, and no failure
	exceptions []exception

	pool     *databasePool
	dsn      string
	broker   *brokertest.Broker
	cfg      cdc.Config
	sessions map[string]*pgx.Conn
	running  *running
	refused  error  // the publisher refused to start
	stalled  string // why it stands still
	reason   string // why it seems to
	since    time.Time
}

func readCase(t *testing.T, dir string) *goldenCase {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	c := &goldenCase{t: t, name: filepath.Base(dir), sessions: map[string]*pgx.Conn{}}
	if err := json.Unmarshal([]byte(read("connector.json")), &c.connector); err != nil {
		t.Fatal(err)
	}
	c.setup, c.changes = statements(t, read("setup.sql")), statements(t, read("changes.sql"))
	c.outcome, _, _ = strings.Cut(read("outcome"), "\n")
	c.needsOtel = strings.Contains(read("case.md"), "needs: opentelemetry")
	for line := range strings.Lines(read("expected.jsonl")) {
		var r goldenRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		c.expected = append(c.expected, r)
	}
	return c
}

// statement is one of setup.sql or changes.sql, or a directive without SQL.
type statement struct {
	directive string // "", fails, settle, stop, start, "session b"
	sql       string
}

var directive = regexp.MustCompile(`^-- @(\w+)\s*(\S*)\s*$`)

func statements(t *testing.T, text string) []statement {
	t.Helper()
	var all []statement
	var sql []string
	fails := ""
	for _, line := range strings.Split(text, "\n") { // a payload may hold U+2028
		trimmed := strings.TrimSpace(line)
		found := directive.FindStringSubmatch(line)
		switch {
		case found != nil && found[1] == "fails":
			fails = "fails"
		case found != nil:
			all = append(all, statement{directive: strings.TrimSpace(found[1] + " " + found[2])})
		case trimmed == "" && len(sql) == 0, strings.HasPrefix(strings.TrimLeft(line, " \t"), "--"):
		default:
			sql = append(sql, line)
			if strings.HasSuffix(strings.TrimRight(line, " \t"), ";") {
				all = append(all, statement{fails, strings.Join(sql, "\n")})
				sql, fails = nil, ""
			}
		}
	}
	if len(sql) > 0 {
		t.Fatalf("no ; at the end of %q", sql)
	}
	return all
}

func (c *goldenCase) run() {
	c.dsn = c.database()
	c.broker = brokertest.Start(c.t, nil)
	began := time.Now()
	c.execute(c.setup)
	c.configure()
	c.start()
	c.execute(c.changes)
	c.settle()
	if c.running != nil {
		c.running.cancel()
	}
	got := c.records()
	for _, p := range c.compare(got, began) {
		c.t.Error(p)
	}
	if c.t.Failed() {
		c.t.Logf("outcome %s; refused: %v; stalled: %q", c.outcome, c.refused, c.stalled)
	}
}

// database is an empty one. A case with two-phase commits has a server of its
// own, which is told to allow them.
func (c *goldenCase) database() string {
	for _, s := range append(c.setup, c.changes...) {
		if strings.HasPrefix(strings.ToUpper(strings.TrimSpace(s.sql)), "PREPARE TRANSACTION") {
			return twoPhaseDatabase(c.t)
		}
	}
	return c.pool.take(c.t)
}

func twoPhaseDatabase(t *testing.T) string {
	t.Helper()
	server := pgtest.Server(t)
	db, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(t.Context(), "ALTER SYSTEM SET max_prepared_transactions = 10")
	db.Close(t.Context())
	if err == nil {
		err = server.Stop(t.Context())
	}
	if err == nil {
		err = server.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return server.DSN()
}

// configure writes the connector as it is, but for the server's address, and the
// slot's name: all cases share a server. Topics are made by the recording's
// broker with six partitions; here the connector says so.
func (c *goldenCase) configure() {
	conn, err := pgx.ParseConfig(c.dsn)
	if err != nil {
		c.t.Fatal(err)
	}
	facts := map[string]string{"PGHOST": conn.Host, "PGPORT": fmt.Sprint(conn.Port), "PGUSER": conn.User, "PGPASSWORD": conn.Password, "PGDATABASE": conn.Database}
	options := c.connector["config"].(map[string]any)
	for name, v := range options {
		if s, ok := v.(string); ok {
			for fact, value := range facts {
				s = strings.ReplaceAll(s, "@"+fact+"@", value)
			}
			options[name] = s
		}
	}
	options["slot.name"] = "golden_" + conn.Database
	if options["topic.creation.default.partitions"] == nil {
		options["topic.creation.default.partitions"] = "6"
	}
	text, err := json.Marshal(c.connector)
	if err != nil {
		c.t.Fatal(err)
	}
	file := filepath.Join(c.t.TempDir(), "connector.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.cfg = cdc.Config{File: file, Brokers: []string{c.broker.Addr()}, StatusInterval: 50 * time.Millisecond, OpenTelemetry: c.needsOtel}
	for _, e := range c.exceptions {
		if e.kind == "ignore" {
			c.cfg.IgnoreOptions = append(c.cfg.IgnoreOptions, e.what)
		}
	}
}

// start runs the publisher until it streams, stands still or refuses.
func (c *goldenCase) start() {
	cfg := c.cfg
	cfg.Listen = freeAddr(c.t)
	ctx, cancel := context.WithCancel(context.Background())
	p := &running{t: c.t, addr: cfg.Listen, cancel: cancel, done: make(chan error, 1)}
	go func() {
		p.done <- cdc.Run(ctx, slog.New(slog.NewTextHandler(testWriter{c.t}, nil)), cfg)
		close(p.done)
	}()
	c.t.Cleanup(func() {
		cancel()
		for range p.done { // until it is closed
		}
	})
	c.running = p
	eventually(c.t, "start", func() bool {
		select {
		case err := <-p.done:
			if err == nil {
				err = errors.New("stopped")
			}
			c.refused, c.running = err, nil
			return true
		default:
		}
		r, ok := p.ready()
		return ok && (r.Ready || c.standsStill())
	})
}

// passing are the reasons of a stand-still that ends by itself.
var passing = regexp.MustCompile(`^(starting|making the slot|publishing the rows|slot busy|connect)`)

// standsStill tells whether the publisher stands still for good: for the same
// reason for some time.
func (c *goldenCase) standsStill() bool {
	r, ok := c.running.ready()
	if !ok || r.Sources[0].State != cdc.Stalled || passing.MatchString(r.Sources[0].Reason) {
		c.reason = ""
		return false
	}
	if reason := r.Sources[0].Reason; reason != c.reason {
		c.reason, c.since = reason, time.Now()
	}
	if time.Since(c.since) < 400*time.Millisecond {
		return false
	}
	c.stalled = c.reason
	return true
}

// settle waits until all so far is published, or nothing more will be.
func (c *goldenCase) settle() {
	if c.running == nil {
		return
	}
	db := c.session("settle")
	var target int64
	if err := db.QueryRow(c.t.Context(), `SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint`).Scan(&target); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, "rest", func() bool {
		var confirmed int64
		if err := db.QueryRow(c.t.Context(), `SELECT coalesce(max(confirmed_flush_lsn - '0/0'), 0)::bigint FROM pg_replication_slots WHERE database = current_database()`).
			Scan(&confirmed); err != nil {
			c.t.Fatal(err)
		}
		return confirmed >= target || c.standsStill()
	})
}

func (c *goldenCase) session(name string) *pgx.Conn {
	if conn := c.sessions[name]; conn != nil {
		return conn
	}
	conn, err := pgx.Connect(c.t.Context(), c.dsn)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close(context.Background()) })
	c.sessions[name] = conn
	return conn
}

func (c *goldenCase) execute(all []statement) {
	current := "a"
	for _, s := range all {
		switch name, isSession := strings.CutPrefix(s.directive, "session "); {
		case isSession:
			current = name
		case s.directive == "settle":
			c.settle()
		case s.directive == "stop":
			if c.running != nil {
				c.running.cancel()
				<-c.running.done
			}
		case s.directive == "start":
			c.start()
		case s.sql == "":
			c.t.Fatalf("unknown directive %q", s.directive)
		default:
			_, err := c.session(current).PgConn().Exec(c.t.Context(), s.sql).ReadAll()
			if (err != nil) != (s.directive == "fails") {
				c.t.Fatalf("%s: %v", s.sql, err)
			}
		}
	}
}
