package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/inbox"
	"chorus/internal/deploy"
	"chorus/internal/event"
	"chorus/internal/inspect"
)

func cmdPoison(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: poison TOPIC ORDER TYPE [OWNER]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := of(ts)
	var id event.ID
	rand.Read(id[:])
	if len(args) == 4 {
		var placed struct {
			EventID event.ID `json:"event_id"`
		}
		orders, err := c.address("orders") // not by way of the console, which may be frozen
		ts.Check(err)
		ts.Check(inspect.Client{Base: orders}.Do(ctx, http.MethodGet, "/v1/orders/"+args[1], nil, &placed))
		no, err := event.ParseOrderNo(args[1])
		ts.Check(err)
		id = event.Derive(placed.EventID.Time(), event.Participant(args[3]), no, args[2], 0)
	}
	brokers, err := c.brokers()
	ts.Check(err)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	ts.Check(err)
	defer client.Close()
	header := func(key, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: key, Value: []byte(value)} }
	ts.Check(client.ProduceSync(ctx, &kgo.Record{
		Topic: args[0], Key: []byte(args[1]), Value: []byte("no fact"), Headers: []kgo.RecordHeader{header("id", id.String()), header("eventType", args[2])},
	}).FirstErr())
}

func cmdLetters(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: letters SERVICE N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	c := of(ts)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := "/v1/services/" + args[0] + "/inspect/dead-letters?state=" + inbox.Open
	ts.Check(c.wait(fmt.Sprintf("%d dead letters of %s", n, args[0]), func() (bool, error) {
		var body struct {
			Letters []inspect.Letter `json:"dead_letters"`
		}
		if err := c.api(ctx, http.MethodGet, path, nil, &body); err != nil {
			if away(err) {
				err = nil
			}
			return false, err
		}
		return len(body.Letters) == n, nil
	}))
}

// cmdHeld looks through every row of every database. An outbox is left out: cdc prunes it.
func cmdHeld(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] held TEXT")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	where, err := of(ts).held(ctx, args[0])
	ts.Check(err)
	fmt.Fprintln(ts.Stdout(), strings.Join(where, "\n"))
	if neg != (len(where) == 0) {
		ts.Fatalf("%q is held by %v", args[0], where)
	}
}

func (c *system) held(ctx context.Context, text string) (where []string, err error) {
	for _, db := range deploy.Databases() {
		if !db.Inbox {
			continue
		}
		admin, err := c.database(db.Name)
		if err != nil {
			return nil, err
		}
		conn, err := pgx.Connect(ctx, admin)
		if err != nil {
			return nil, err
		}
		defer conn.Close(ctx)
		rows, _ := conn.Query(ctx, `SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'outbox'`)
		tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, err
		}
		for _, table := range tables {
			var n int
			name := pgx.Identifier{table}.Sanitize()
			sql := `SELECT count(*) FROM ` + name + ` AS t WHERE strpos(t::text, $1) > 0 OR strpos(t::text, encode(convert_to($1, 'UTF8'), 'hex')) > 0`
			if err := conn.QueryRow(ctx, sql, text).Scan(&n); err != nil {
				return nil, fmt.Errorf("look through %s.%s: %w", db.Name, table, err)
			}
			if n > 0 {
				where = append(where, db.Name+"."+table)
			}
		}
	}
	return where, nil
}
