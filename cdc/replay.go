package cdc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"
)

// ReplayHeader marks a record that a replay published: its value is the name of
// the replay. It stands behind the record's own headers.
const ReplayHeader = "replay"

// ReplayOptions say what is published again because somebody wants it again.
type ReplayOptions struct {
	Selection
	Name     string  // value of ReplayHeader; the time of the start by default
	Rate     float64 // records a second; 0 is no limit
	State    string  // file that remembers how far it is, so that it can go on; none when empty
	Progress func(Replayed)
}

// Replayed is how far a replay is.
type Replayed struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Sent   int    `json:"sent"`  // records that Kafka has, those of earlier runs included
	Total  int    `json:"total"` // rows that were selected when it began
	Done   bool   `json:"done"`
}

// replayState is the file.
type replayState struct {
	Replayed
	Selection string `json:"selection"` // it goes on with the same one only
	Table     string `json:"table"`     // that it is at
	Place     *place `json:"place"`     // behind which it goes on; nil at the table's beginning
}

// Replay publishes rows that the table still holds again, marked by a header, at
// a bounded rate, oldest first, and without touching the slot: the publisher
// may run meanwhile.
//
// With a state file a replay that was killed goes on behind what Kafka has
// acknowledged. What was acknowledged and not noted, one batch, comes twice.
func Replay(ctx context.Context, log *slog.Logger, cfg Config, o ReplayOptions) (Replayed, error) {
	_, sources, err := prepare(log, cfg, newMetrics(prometheus.NewRegistry()))
	if err != nil {
		return Replayed{}, err
	}
	s, err := pick(sources, o.Source)
	if err != nil {
		return Replayed{}, err
	}
	if o.From.IsZero() && o.To.IsZero() && len(o.IDs) == 0 {
		return Replayed{}, errors.New("say what to replay: --from, --to or --id")
	}
	p := &replay{source: s, options: o}
	if err := p.run(ctx); err != nil {
		return p.state.Replayed, fmt.Errorf("replay source %s: %w", s.cfg.Name, err)
	}
	return p.state.Replayed, nil
}

type replay struct {
	*source
	options ReplayOptions
	state   replayState
}

func (p *replay) run(ctx context.Context) error {
	if err := p.load(); err != nil {
		return err
	}
	db, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	tables, err := p.narrow(ctx, db, p.options.Selection)
	if err != nil {
		return err
	}
	if p.state.Total == 0 {
		if err := p.count(ctx, db, tables); err != nil {
			return err
		}
	}
	reader, err := p.openTables(ctx, db, 0)
	if err != nil {
		return err
	}
	defer reader.close(ctx)
	out, err := newProducer(p.config, p.cfg.Name+"-replay", p.dropin, nil)
	if err != nil {
		return err
	}
	defer out.client.Close()
	return p.send(ctx, reader, out, tables)
}

// send publishes the tables one after the other, and notes after each batch
// where it is.
func (p *replay) send(ctx context.Context, reader *tableReader, out *producer, tables []selected) error {
	send := &resender{out: out, mark: []kgo.RecordHeader{{Key: ReplayHeader, Value: []byte(p.state.Name)}}}
	if p.options.Rate > 0 {
		send.limit = rate.NewLimiter(rate.Limit(p.options.Rate), max(1, int(p.options.Rate/10)))
	}
	var at place
	send.done = func(n int) error {
		p.state.Sent += n
		here := at
		p.state.Place = &here
		return p.save()
	}
	for _, t := range tables {
		var after *place
		switch name := t.table.String(); {
		case p.state.Table == "":
			p.state.Table = name
		case p.state.Table != name:
			continue // an earlier run has done it
		default:
			var err error
			if after, err = t.check(ctx, reader.db, p.state.Place); err != nil {
				return err
			}
		}
		if err := reader.pages(ctx, t, after, func(row reread) error {
			at = placeOf(row)
			return send.add(ctx, row.record)
		}); err != nil {
			return err
		}
		if err := send.flush(ctx); err != nil {
			return err
		}
		p.state.Table, p.state.Place = "", nil
	}
	p.state.Done = true
	return p.save()
}

func (p *replay) count(ctx context.Context, db *pgx.Conn, tables []selected) error {
	for _, t := range tables {
		var n int
		sql := fmt.Sprintf("SELECT count(*) FROM %s AS t WHERE %s", quoteTable(t.table), t.where(p.idColumn(), nil))
		if err := db.QueryRow(ctx, sql).Scan(&n); err != nil {
			return fmt.Errorf("count the rows of table %s: %w", t.table, err)
		}
		p.state.Total += n
	}
	return nil
}

// load reads the state of an earlier run of the same replay.
func (p *replay) load() error {
	o := p.options
	selection, err := json.Marshal(o.Selection)
	if err != nil {
		return err
	}
	p.state = replayState{Selection: string(selection), Replayed: Replayed{Name: o.Name, Source: p.cfg.Name}}
	if o.Name == "" {
		p.state.Name = time.Now().UTC().Format(time.RFC3339)
	}
	if o.State == "" {
		return nil
	}
	text, err := os.ReadFile(o.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var before replayState
	if err := json.Unmarshal(text, &before); err != nil {
		return fmt.Errorf("state file %s: %w", o.State, err)
	}
	switch {
	case before.Source != p.cfg.Name || before.Selection != p.state.Selection || o.Name != "" && o.Name != before.Name:
		return fmt.Errorf("state file %s is of another replay: %s of source %s", o.State, before.Name, before.Source)
	case before.Done:
		return fmt.Errorf("state file %s says that replay %s is done; delete it to begin anew", o.State, before.Name)
	}
	p.state = before
	p.log.Info("replay goes on", "name", before.Name, "sent", before.Sent, "total", before.Total)
	return nil
}

// save replaces the file in one step, and tells how far the replay is.
func (p *replay) save() error {
	if p.options.Progress != nil {
		p.options.Progress(p.state.Replayed)
	}
	if p.options.State == "" {
		return nil
	}
	text, err := json.MarshalIndent(p.state, "", "  ")
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(p.options.State), ".replay-*")
	if err != nil {
		return err
	}
	_, err = next.Write(text)
	err = errors.Join(err, next.Sync(), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), p.options.State)
	}
	if err != nil {
		_ = os.Remove(next.Name()) // or it would stay behind
		return fmt.Errorf("note the progress in %s: %w", p.options.State, err)
	}
	return nil
}
