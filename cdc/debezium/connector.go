package debezium

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"chorus/cdc/connect"
	"chorus/cdc/javaregex"
)

// Connector is a compiled configuration. It is used by one goroutine at a time:
// it remembers schemas, as the router does.
type Connector struct {
	Prefix      string // topic.prefix
	Slot        string
	Publication string
	AutoCreate  string // publication.autocreate.mode: all_tables, filtered, disabled, no_tables
	Publish     string // what a publication that is made publishes: "insert, update, delete"
	ViaRoot     bool   // publish.via.partition.root
	Snapshot    bool   // rows older than the slot are published when the slot is made
	Only        bool   // snapshot.mode=initial_only: nothing but these rows is published
	Tolerate    bool   // errors.tolerance=all: a row that cannot be published is dropped
	Partitions  int32  // topic.creation.default.*; 0: the broker makes topics
	Replication int16
	Compression string            // producer.override.compression.type
	Overrides   map[string]string // snapshot.select.statement.overrides, by schema.table
	Predicate   string            // the option by which the router is not for every table; empty without one
	Unrouted    bool              // rows that the router is not for may be left out
	Notes       []Note

	tables, excludedTables, schemas, excludedSchemas []*javaregex.Regex
	columns, excludedColumns                         []*javaregex.Regex
	prefixes, excludedPrefixes                       []*javaregex.Regex

	kinds      kinds
	fieldName  func(string) string // field.name.adjustment.mode of the connector
	schemaName func(string) string // schema.name.adjustment.mode
	toast      string              // unavailable.value.placeholder

	key, value, header connect.Converter
	context            []header // __debezium.context.*
	decode             *expander
	router             router
	after              []step // transforms behind the router
	trace              trace
}

// Settings are what is not in a connector's configuration but in the worker or
// in chorus.
type Settings struct {
	Ignore []string // options that are to be ignored although the records differ
	// DefaultConverters takes StringConverter for a converter that is not
	// named. A connector of Connect takes the worker's, which is not known.
	DefaultConverters bool
	OpenTelemetry     bool   // as with OpenTelemetry on Connect's class path
	RunID             string // of the header __debezium.context.runId
	// NewID gives random bytes for the ids of spans and traces.
	NewID func(n int) []byte
	// KeyUpdates takes an update of the primary key for the update it is.
	// Debezium publishes the row again.
	KeyUpdates bool
	// RenamedFields keeps the values of fields that field.name.adjustment.mode
	// renames on expansion. Debezium makes them null.
	RenamedFields bool
}

// Parse compiles a connector's configuration. The error names all that cannot
// work and every option whose neglect would change the records.
func Parse(config map[string]string, s Settings) (*Connector, error) {
	o := &options{all: config, used: map[string]bool{}}
	c := &Connector{}
	c.readConnector(o)
	c.readFilters(o)
	c.readKinds(o)
	c.readConverters(o, s)
	c.readTransforms(o, s)
	if o.boolean("extended.headers.enabled", true) {
		c.context = []header{{"__debezium.context.connectorLogicalName", c.Prefix}, {"__debezium.context.taskId", "0"},
			{"__debezium.context.connectorName", "postgresql"}, {"__debezium.context.runId", s.RunID}}
	}
	if o.boolean("provide.transaction.metadata", false) {
		o.note("provide.transaction.metadata", "chorus publishes outbox rows alone, no transaction metadata", true)
	}
	o.rest()
	for _, n := range o.notes {
		if n.Alters && !slices.Contains(s.Ignore, n.Option) {
			o.fault("%s; to go on without it: --ignore-option=%s", n, n.Option)
		}
	}
	c.Notes = o.notes
	return c, errors.Join(o.faults...)
}

func (c *Connector) readConnector(o *options) {
	if class := o.text("connector.class", postgresConnector); class != postgresConnector {
		o.fault("connector.class=%s is not %s", class, postgresConnector)
	}
	if c.Prefix = o.text("topic.prefix", ""); c.Prefix == "" {
		o.fault("no topic.prefix")
	}
	for name := range o.all {
		if strings.HasPrefix(name, "database.") && !strings.HasPrefix(name, "database.initial") {
			o.text(name, "") // the caller reads them
		}
	}
	c.Slot = o.text("slot.name", "debezium")
	c.Publication = o.text("publication.name", "dbz_publication")
	c.AutoCreate = o.choice("publication.autocreate.mode", "all_tables", "filtered", "disabled", "no_tables")
	c.ViaRoot = o.boolean("publish.via.partition.root", false)
	if o.boolean("slot.failover", false) {
		o.note("slot.failover", "the slot is not made for failover", false)
	}
	c.Tolerate = o.choice("errors.tolerance", "none", "all") == "all"
	c.readOperations(o)
	c.readSnapshot(o)
	c.Partitions = int32(o.number("topic.creation.default.partitions"))
	c.Replication = int16(o.number("topic.creation.default.replication.factor"))
	if c.Replication == 0 {
		c.Replication = -1 // the broker's default
	}
	c.Compression = o.choice("producer.override.compression.type", "none", "gzip", "snappy", "lz4", "zstd")
	if acks := o.text("producer.override.acks", "all"); acks != "all" && acks != "-1" {
		o.note("producer.override.acks", "chorus waits for all in-sync replicas", false)
	}
	if p := o.text("plugin.name", "pgoutput"); p != "pgoutput" {
		o.note("plugin.name", "chorus reads pgoutput, whatever the slot's plugin was", true)
	}
}

const postgresConnector = "io.debezium.connector.postgresql.PostgresConnector"

func (o *options) number(name string) int {
	text := o.text(name, "0")
	n, err := strconv.Atoi(text)
	if err != nil || n < -1 {
		o.fault("%s=%q is no number", name, text)
	}
	return n
}

// readOperations reads what a publication need not publish. The router drops
// deletes and truncates, whatever comes.
func (c *Connector) readOperations(o *options) {
	skipped := o.list("skipped.operations")
	if !o.has("skipped.operations") {
		skipped = []string{"t"}
	}
	var publish []string
	for _, op := range []struct{ letter, name string }{{"c", "insert"}, {"u", "update"}, {"d", "delete"}, {"t", "truncate"}} {
		if !slices.Contains(skipped, op.letter) {
			publish = append(publish, op.name)
		}
	}
	c.Publish = strings.Join(publish, ", ")
	c.router.skipInserts, c.router.skipUpdates = slices.Contains(skipped, "c"), slices.Contains(skipped, "u")
}

func (c *Connector) readSnapshot(o *options) {
	switch mode := strings.ToLower(o.text("snapshot.mode", "initial")); mode {
	case "initial", "when_needed":
		c.Snapshot = true
	case "initial_only":
		c.Snapshot, c.Only = true, true
	case "no_data", "never", "schema_only":
	default:
		o.fault("snapshot.mode=%s is not supported: use initial, initial_only, when_needed or no_data", mode)
	}
	c.Overrides = map[string]string{}
	for _, table := range o.list("snapshot.select.statement.overrides") {
		name := "snapshot.select.statement.overrides." + table
		if c.Overrides[table] = o.text(name, ""); c.Overrides[table] == "" {
			o.fault("no %s", name)
		}
	}
}

func (c *Connector) readKinds(o *options) {
	c.kinds = kinds{
		decimal: o.choice("decimal.handling.mode", "precise", "double", "string"),
		binary:  o.choice("binary.handling.mode", "bytes", "base64", "base64-url-safe", "hex"),
		time:    o.choice("time.precision.mode", "adaptive", "adaptive_time_microseconds", "microseconds", "nanoseconds"),
	}
	c.toast = o.text("unavailable.value.placeholder", "__debezium_unavailable_value")
	c.fieldName = o.adjuster("field.name.adjustment.mode", true)
	c.schemaName = o.adjuster("schema.name.adjustment.mode", false)
}

func (o *options) adjuster(name string, field bool) func(string) string {
	mode := strings.ToLower(o.text(name, "none"))
	adjust := adjuster(mode, field)
	if adjust == nil {
		o.fault("%s=%q is not one of none, avro, avro_unicode", name, mode)
		adjust = adjuster("none", field)
	}
	return adjust
}

func (c *Connector) readFilters(o *options) {
	c.tables, c.excludedTables = o.patterns("table.include.list"), o.patterns("table.exclude.list")
	c.schemas, c.excludedSchemas = o.patterns("schema.include.list"), o.patterns("schema.exclude.list")
	c.columns, c.excludedColumns = o.patterns("column.include.list"), o.patterns("column.exclude.list")
	c.prefixes, c.excludedPrefixes = o.patterns("message.prefix.include.list"), o.patterns("message.prefix.exclude.list")
}

func (o *options) patterns(name string) []*javaregex.Regex {
	var list []*javaregex.Regex
	for _, pattern := range o.list(name) {
		r, err := javaregex.CompileFold(pattern)
		if err != nil {
			o.fault("%s: %w", name, err)
			continue
		}
		list = append(list, r)
	}
	return list
}

// matches tells whether one of the patterns is the whole name.
func matches(list []*javaregex.Regex, name string) bool {
	return slices.ContainsFunc(list, func(r *javaregex.Regex) bool {
		ok, err := r.Matches(name)
		return ok && err == nil
	})
}

// passes applies a pair of lists, of which no more than one is set.
func passes(include, exclude []*javaregex.Regex, name string) bool {
	return (len(include) == 0 || matches(include, name)) && !matches(exclude, name)
}

// Captures tells whether rows of a table reach the router.
func (c *Connector) Captures(schema, table string) bool {
	system := schema == "pg_catalog" || schema == "information_schema"
	return !system && passes(c.schemas, c.excludedSchemas, schema) && passes(c.tables, c.excludedTables, schema+"."+table)
}

// capturesColumn tells whether a column is among those of the lists.
func (c *Connector) capturesColumn(t Name, column string) bool {
	return passes(c.columns, c.excludedColumns, t.Schema+"."+t.Table+"."+column)
}

// Name is a table's.
type Name struct{ Schema, Table string }

func (n Name) String() string { return n.Schema + "." + n.Table }

// RowError is a row that Debezium could not publish, or that would end its task.
// It comes again until the row, the table or the configuration is another.
type RowError struct{ Why string }

func (e *RowError) Error() string { return e.Why }

func rowErrorf(format string, args ...any) error { return &RowError{Why: fmt.Sprintf(format, args...)} }
