package cdc

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"chorus/cdc/debezium"
	"chorus/cdc/wal"
)

// dropin is a source whose records are those of a Debezium connector with the
// Outbox Event Router. The reader of the session uses it alone.
type dropin struct {
	connector *debezium.Connector
	tables    map[uint32]compiled  // by OID
	captured  map[uint32]wal.Table // by OID, as the catalog named them when the session began
}

// compiled is a table as it was announced last.
type compiled struct {
	relation *wal.Relation
	table    *debezium.Table
}

// Values of Config.Improve.
const (
	improveKeyUpdates    = "key-updates"
	improveRenamedFields = "renamed-fields"
)

// becomeDropIn compiles the options of the connector and says what is not
// honoured.
func (s *source) becomeDropIn() error {
	for _, what := range s.config.Improve {
		if what != improveKeyUpdates && what != improveRenamedFields {
			return fmt.Errorf("improve %q: there are %s and %s", what, improveKeyUpdates, improveRenamedFields)
		}
	}
	// Converters that a connector of Kafka Connect does not name are its worker's.
	_, ofConnect := s.cfg.Debezium["connector.class"]
	if !ofConnect {
		s.cfg.Debezium = s.cfg.routerOptions()
	}
	c, err := debezium.Parse(s.cfg.Debezium, debezium.Settings{
		Ignore:            s.config.IgnoreOptions,
		DefaultConverters: !ofConnect,
		OpenTelemetry:     s.config.OpenTelemetry,
		RunID:             uuid.NewString(),
		NewID: func(n int) []byte {
			b := make([]byte, n)
			_, _ = rand.Read(b) // never fails
			return b
		},
		KeyUpdates:    slices.Contains(s.config.Improve, improveKeyUpdates),
		RenamedFields: slices.Contains(s.config.Improve, improveRenamedFields),
	})
	if err != nil {
		return err
	}
	for _, n := range c.Notes {
		s.log.Warn("option is not honoured", "option", n.Option, "reason", n.Why)
	}
	if !slotName.MatchString(c.Slot) {
		return fmt.Errorf("slot.name %q: a slot's name has 1 to 63 lower-case letters, digits and underscores", c.Slot)
	}
	if kafka, ok, err := securityOf(s.cfg.Debezium); err != nil {
		return err
	} else if ok {
		if err := kafka.check(); err != nil {
			return fmt.Errorf("producer.override: %w", err)
		}
		s.config.Kafka = kafka
	}
	s.dropin = &dropin{connector: c, tables: map[uint32]compiled{}}
	s.cfg.Slot, s.cfg.Publication = c.Slot, c.Publication
	return nil
}

// routerOptions are the options of a source in our own configuration: what it
// does not set is as for our own outboxes, or as a router alone has it.
func (s Source) routerOptions() map[string]string {
	name := "chorus_" + notForSlot.ReplaceAllString(strings.ToLower(s.Name), "_")
	options := map[string]string{
		"topic.prefix":                s.Name,
		"slot.name":                   cmp.Or(s.Slot, name),
		"publication.name":            cmp.Or(s.Publication, name),
		"publication.autocreate.mode": "filtered",
		"table.include.list":          regexp.QuoteMeta(cmp.Or(s.Table, "public.outbox")),
		"extended.headers.enabled":    "false",
		"transforms":                  "outbox",
		"transforms.outbox.type":      "io.debezium.transforms.outbox.EventRouter",
	}
	maps.Copy(options, s.Debezium)
	return options
}

// takeChange handles one event of a drop-in.
func (s *session) takeChange(ctx context.Context, ev wal.Event) error {
	switch ev.Kind {
	case wal.Nothing:
		s.countOther()
	case wal.Begin:
		return s.begin(ev.Tx)
	case wal.Insert, wal.Update, wal.Delete:
		return s.takeRow(ctx, ev)
	case wal.Logical:
		return s.takeMessage(ctx, ev.Message)
	case wal.Commit:
		s.showLife()
		return s.commit(ctx, ev.Tx.End)
	case wal.Truncate:
		s.metrics.ignored.WithLabelValues("truncate").Inc()
	}
	return nil
}

func (s *session) takeRow(ctx context.Context, ev wal.Event) error {
	c := ev.Change
	t, err := s.tableOf(ctx, c.Relation)
	if err != nil {
		return err
	}
	if t == nil {
		s.metrics.ignored.WithLabelValues("foreign").Inc()
		return nil
	}
	op := debezium.Insert
	switch ev.Kind {
	case wal.Update:
		op = debezium.Update
	case wal.Delete:
		op = debezium.Delete
	}
	out, err := t.Route(op, c.New, c.Old)
	return s.emit(ctx, out, err, &c.Relation.Table)
}

// takeMessage handles a logical decoding message. One outside of transactions is
// in the log by itself: it takes the place of a transaction.
func (s *session) takeMessage(ctx context.Context, m *wal.Message) error {
	out, err := s.dropin.connector.Message(m.Prefix, m.Content)
	if !m.Transactional {
		if err := s.begin(wal.Tx{Start: m.At - 1, Committed: time.Now()}); err != nil { // of its record only the end is known
			return err
		}
	}
	if err := s.emit(ctx, out, err, prefixName(m.Prefix)); err != nil {
		return err
	}
	if !m.Transactional {
		s.showLife()
		return s.commit(ctx, m.At)
	}
	return nil
}

// prefixName names logical messages where a table is named for rows.
type prefixName string

func (p prefixName) String() string { return "messages " + string(p) }

// emit publishes what became of a row. A row that cannot be published holds the
// stream, or is dropped when errors.tolerance says so.
func (p *publisher) emit(ctx context.Context, out debezium.Outcome, err error, from fmt.Stringer) error {
	switch {
	case err != nil:
		return p.held(ctx, fmt.Sprintf("row of %s: %v", from, err))
	case out.Ignored != "":
		p.metrics.ignored.WithLabelValues(out.Ignored).Inc()
		level := p.log.Warn
		if out.Error {
			level = p.log.Error
		}
		p.once(out.Ignored+from.String(), func() {
			level("change is not published, nor are others like it", "kind", out.Ignored, "table", from.String())
		})
		return nil
	case out.Record == nil:
		p.metrics.ignored.WithLabelValues("delete").Inc()
		return nil
	}
	if out.Warning != "" {
		p.once(out.Warning, func() {
			p.log.Warn("row is published with a flaw, as others like it", "table", from.String(), "reason", out.Warning)
		})
	}
	p.metrics.rows.Inc()
	return p.publishRecord(ctx, out.Record)
}

// once does something at the first of its kind in a session.
func (p *publisher) once(key string, do func()) {
	if !p.told[key] && len(p.told) < 1000 {
		p.told[key] = true
		do()
	}
}

// held stands still at a row that makes no record: nothing overtakes it. It goes
// on when errors.tolerance=all, without the row.
func (p *publisher) held(ctx context.Context, why string) error {
	if p.tolerates() {
		p.drop(why)
		return nil
	}
	return p.insist(ctx, func() error { return refusal{why, true} })
}

// tableOf compiles a table when it was announced anew; nil is one whose rows are
// not captured. What the announcement lacks is read from the catalog as it is
// now, as Debezium does.
func (s *session) tableOf(ctx context.Context, r *wal.Relation) (*debezium.Table, error) {
	if c := s.dropin.tables[r.OID]; c.relation == r {
		return c.table, nil
	}
	announced := *r
	if !s.dropin.connector.Captures(r.Table.Schema, r.Table.Name) {
		captured, renamed := s.dropin.captured[r.OID]
		if !renamed {
			s.dropin.tables[r.OID] = compiled{relation: r}
			return nil, nil
		}
		// Debezium would pass the rows over in silence.
		s.once("renamed "+r.Table.String(), func() {
			s.log.Warn("rows come under a name that is not captured, of a table that is: it was renamed; they are published", "name", r.Table.String(), "table", captured.String())
		})
		announced.Table = captured
	}
	db, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	t, err := s.compile(ctx, db, &announced)
	if err != nil {
		return nil, err
	}
	s.dropin.tables[r.OID] = compiled{relation: r, table: t}
	return t, nil
}

func (s *source) compile(ctx context.Context, db *pgx.Conn, r *wal.Relation) (*debezium.Table, error) {
	facts, err := readColumnFacts(ctx, db, r.OID)
	if err != nil {
		return nil, err
	}
	types := typeReader{db: db, known: map[uint32]debezium.Type{}}
	columns := make([]debezium.Column, 0, len(r.Columns))
	for _, a := range r.Columns {
		t, err := types.read(ctx, a.Type, a.Mod)
		if err != nil {
			return nil, fmt.Errorf("read the type of column %s of %s: %w", a.Name, r.Table, err)
		}
		f := facts[a.Name]
		columns = append(columns, debezium.Column{Name: a.Name, Type: t, NotNull: f.notNull, Default: f.expression, Key: f.key})
	}
	return s.dropin.connector.Table(debezium.Name{Schema: r.Table.Schema, Table: r.Table.Name}, columns), nil
}
