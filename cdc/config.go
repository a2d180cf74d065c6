package cdc

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5"

	"chorus/cdc/wal"
)

// Config is what a cdc process runs with. The zero of a field is its default.
type Config struct {
	File           string        `yaml:"-" kong:"name='config',type='existingfile',placeholder='FILE',help='Sources and settings from a file: YAML or JSON of our own, or the JSON of a Debezium connector as it is.'"`
	Sources        []Source      `yaml:"sources" kong:"name='source',sep='none',placeholder='NAME=URL',help='Outbox to publish: a name and the PostgreSQL URL of its database. May be repeated.'"`
	Brokers        []string      `yaml:"brokers" kong:"placeholder='HOST:PORT',help='Kafka brokers to ask first.'"`
	Kafka          Security      `yaml:"kafka" kong:"embed,prefix='kafka-'"`
	Listen         string        `yaml:"listen" kong:"placeholder='HOST:PORT',help='Address for /livez, /readyz and /metrics; none when empty.'"`
	IgnoreOptions  []string      `yaml:"ignore_options" kong:"name='ignore-option',placeholder='NAME',help='Option of a Debezium connector that is not honoured and shall not stop the start. May be repeated.'"`
	Improve        []string      `yaml:"improve" kong:"placeholder='WHAT',help='Differ from Debezium where it spoils records: key-updates (an update of the primary key is no new event), renamed-fields (fields renamed on expansion keep their values).'"`
	OpenTelemetry  bool          `yaml:"opentelemetry" kong:"help='Pass trace contexts on from tracingspancontext, as a connector does that has OpenTelemetry on its class path.'"`
	PruneAfter     time.Duration `yaml:"prune_after" kong:"default='15m',help='Delete outbox rows this long after they occurred, once they are published; negative never deletes.'"`
	DropPartitions bool          `yaml:"prune_partitions" kong:"name='prune-partitions',help='Of an outbox that is partitioned by its time drop partitions that are that old and published as a whole, instead of deleting their rows; needs the owner of the table.'"`
	Delivery       string        `yaml:"delivery" kong:"placeholder='HOW',help='at-least-once (the default) or exactly-once: Kafka transactions, for readers with isolation.level=read_committed; not on the embedded broker.'"`
	OnRefused      string        `yaml:"on_refused" kong:"placeholder='WHAT',help='When Kafka refuses a record for good: stop (the default) at it, or put it and the later ones of its key into quarantine, a table of the source database.'"`
	Watermark      bool          `yaml:"watermark" kong:"help='Add the headers commitLsn, commitSequence and committedAt, by which consumers can order and recognise records.'"`
	PositionTopic  string        `yaml:"position_topic" kong:"placeholder='TOPIC',help='Topic that keeps the positions of exactly-once sources; chorus.cdc.positions by default, made when missing.'"`
	StatusInterval time.Duration `yaml:"status_interval" kong:"default='1s',help='How often the position is confirmed to PostgreSQL.'"`
	SpillDir       string        `yaml:"spill_dir" kong:"type='path',placeholder='DIR',help='Directory for large transactions until they end; by default in the cache of the user, or else the directory for temporary files.'"`
	DrainTimeout   time.Duration `yaml:"drain_timeout" kong:"default='5s',help='How long a stop waits for acknowledgements of what was sent.'"`
}

// Source is one outbox. Name and DSN are needed; the rest follows from them.
type Source struct {
	Name        string `yaml:"name"`        // in logs, metrics and readiness: "orders"
	DSN         string `yaml:"dsn"`         // URL or key=value; its role needs REPLICATION, and SELECT and DELETE on the table
	Slot        string `yaml:"slot"`        // chorus_<name> by default; made when missing
	Publication string `yaml:"publication"` // outbox by default; made when both it and the slot are missing
	Table       string `yaml:"table"`       // public.outbox by default; schema.name as in the catalog, without quotes
	Delivery    string `yaml:"delivery"`    // the process's by default
	OnRefused   string `yaml:"on_refused"`  // the process's by default
	Watermark   bool   `yaml:"watermark"`   // also when the process has it

	// PositionTable keeps a lower bound of the position beside the slot, so that
	// one which somebody made anew or moved is noticed: schema.name, or none. By
	// default chorus_cdc_position where the role's search_path begins, if the role
	// may make it; none with Debezium options, and none for exactly-once.
	PositionTable string `yaml:"position_table"`
	// Failover makes a slot that PostgreSQL 17 and later keeps on its standbys too.
	Failover bool `yaml:"failover"`

	// Debezium makes records as a Debezium connector with these options and the
	// Outbox Event Router does; see docs/cdc.md. Slot, Publication and Table are
	// then what the options say. Nil is an outbox of our own.
	Debezium map[string]string `yaml:"debezium"`
}

// Decode reads a source from the command line, NAME=DSN; it is what kong calls.
func (s *Source) Decode(ctx *kong.DecodeContext) error {
	var text string
	if err := ctx.Scan.PopValueInto("source", &text); err != nil {
		return err
	}
	name, dsn, ok := strings.Cut(text, "=")
	if !ok || strings.ContainsAny(name, ":/ ") {
		return errors.New("source is not of the form NAME=URL") // not its text: it may hold a password
	}
	*s = Source{Name: name, DSN: dsn}
	return nil
}

// Values of Delivery (D8).
const (
	AtLeastOnce = "at-least-once"
	ExactlyOnce = "exactly-once"
)

const (
	defaultPositionTopic  = "chorus.cdc.positions"
	defaultPruneAfter     = 15 * time.Minute
	defaultStatusInterval = time.Second
	defaultDrainTimeout   = 5 * time.Second
)

var (
	slotName   = regexp.MustCompile(`^[a-z0-9_]{1,63}$`) // PostgreSQL's rule
	notForSlot = regexp.MustCompile(`[^a-z0-9_]`)
)

// withDefaults fills the zeros and reports everything that cannot work.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.PruneAfter == 0 {
		c.PruneAfter = defaultPruneAfter
	}
	if c.StatusInterval == 0 {
		c.StatusInterval = defaultStatusInterval
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = defaultDrainTimeout
	}
	if c.StatusInterval < 0 || c.DrainTimeout < 0 {
		fault("status interval %s and drain timeout %s must be positive", c.StatusInterval, c.DrainTimeout)
	}
	c.PositionTopic = cmp.Or(c.PositionTopic, defaultPositionTopic)
	if !validTopic(c.PositionTopic) {
		fault("position topic %q cannot be a topic's name", c.PositionTopic)
	}
	if err := c.Kafka.check(); err != nil {
		fault("kafka: %w", err)
	}
	if len(c.Brokers) == 0 {
		fault("no Kafka broker: --brokers HOST:PORT, or brokers: in the file of --config")
	}
	if len(c.Sources) == 0 {
		fault("no source: --source NAME=postgres://…, or sources: in the file of --config")
	}
	seen := map[string]bool{}
	sources := make([]Source, len(c.Sources))
	for i, s := range c.Sources {
		var err error
		s.Delivery = cmp.Or(s.Delivery, c.Delivery, AtLeastOnce)
		s.OnRefused = cmp.Or(s.OnRefused, c.OnRefused, Stop)
		s.Watermark = s.Watermark || c.Watermark
		if sources[i], err = s.withDefaults(); err != nil {
			fault("source %d (%q): %w", i+1, s.Name, err)
		}
		if seen[s.Name] {
			fault("source %d (%q): name is used twice", i+1, s.Name)
		}
		seen[s.Name] = true
	}
	c.Sources = sources
	return c, errors.Join(faults...)
}

func (s Source) withDefaults() (Source, error) {
	var faults []error
	if s.Name == "" {
		faults = append(faults, errors.New("no name"))
	}
	if s.Delivery != AtLeastOnce && s.Delivery != ExactlyOnce {
		faults = append(faults, fmt.Errorf("delivery %q is neither %s nor %s", s.Delivery, AtLeastOnce, ExactlyOnce))
	}
	if schema, name, ok := strings.Cut(s.PositionTable, "."); s.PositionTable != "" && s.PositionTable != noPositionTable && (!ok || schema == "" || name == "") {
		faults = append(faults, fmt.Errorf("position table %q is neither of the form schema.name nor %s", s.PositionTable, noPositionTable))
	}
	if s.PositionTable != "" && s.PositionTable != noPositionTable && s.Delivery == ExactlyOnce {
		faults = append(faults, errors.New("a position table is for at-least-once: the position of exactly-once is in Kafka"))
	}
	if s.OnRefused != Stop && s.OnRefused != Quarantine {
		faults = append(faults, fmt.Errorf("on_refused %q is neither %s nor %s", s.OnRefused, Stop, Quarantine))
	}
	if s.Debezium != nil {
		return s, errors.Join(append(faults, s.checkDSN())...)
	}
	if s.Slot == "" {
		s.Slot = "chorus_" + notForSlot.ReplaceAllString(strings.ToLower(s.Name), "_")
	}
	if s.Publication == "" {
		s.Publication = "outbox"
	}
	if s.Table == "" {
		s.Table = "public.outbox"
	}
	if !slotName.MatchString(s.Slot) {
		faults = append(faults, fmt.Errorf("slot %q: a slot's name has 1 to 63 lower-case letters, digits and underscores", s.Slot))
	}
	if t := s.table(); t.Schema == "" || t.Name == "" {
		faults = append(faults, fmt.Errorf("table %q is not of the form schema.name", s.Table))
	}
	return s, errors.Join(append(faults, s.checkDSN())...)
}

func (s Source) checkDSN() error {
	if strings.TrimSpace(s.DSN) == "" { // the driver would take it for the server that the environment means
		return errors.New("no dsn")
	}
	_, err := pgx.ParseConfig(s.DSN) // pgx leaves the password out of its error
	return err
}

func (s Source) table() wal.Table {
	schema, name, _ := strings.Cut(s.Table, ".")
	return wal.Table{Schema: schema, Name: name}
}
