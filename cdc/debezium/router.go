package debezium

import (
	"slices"
	"strings"

	"chorus/cdc/connect"
	"chorus/cdc/javaregex"
)

// router is the configuration of the Outbox Event Router.
type router struct {
	id, key, payload, timestamp, version, routeBy string // columns; timestamp and version may be empty
	regex                                         *javaregex.Regex
	replacement                                   javaregex.Replacement
	topics                                        map[string]string // by routing value; what was computed before
	additional                                    []placed
	envelope                                      bool // something is placed in the envelope
	missingIgnored                                bool // table.field.additional.missing=ignore
	tombstone                                     bool // route.tombstone.on.empty.payload
	expand                                        *expander
	invalid                                       string // table.op.invalid.behavior
	keyUpdates                                    bool
	skipInserts, skipUpdates                      bool // skipped.operations
	envelopes                                     map[string]*connect.Schema
	lastKey                                       envelopeKey // of lastEnvelope
	lastEnvelope                                  *connect.Schema

	when    *javaregex.Regex // of the topic that the router is for; nil for all
	whenNot bool
}

// columns are all that the router looks for.
func (r *router) columns() []string {
	all := []string{r.id, r.key, r.payload, r.timestamp, r.version, r.routeBy}
	for _, a := range r.additional {
		all = append(all, a.column)
	}
	return all
}

// placed is an entry of table.fields.additional.placement.
type placed struct {
	column, place, alias string
}

const (
	eventRouter   = "io.debezium.transforms.outbox.EventRouter"
	messageDecode = "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent"
	transforms    = "org.apache.kafka.connect.transforms."
	topicMatches  = transforms + "predicates.TopicNameMatches"
	isTombstone   = transforms + "predicates.RecordIsTombstone"
)

// readTransforms reads the chain: the decoder of messages may stand before the
// router, some of Kafka's own transforms behind it.
func (c *Connector) readTransforms(o *options, s Settings) {
	routed := false
	for _, name := range o.list("transforms") {
		prefix := "transforms." + name + "."
		switch class := strings.TrimSuffix(o.text(prefix+"type", ""), "$Value"); {
		case class == eventRouter && !routed:
			routed = true
			c.readRouter(o, prefix, s)
		case class == messageDecode && !routed && c.decode == nil:
			c.decode = &expander{nullBytes: o.boolean(prefix+"fields.null.include", false), adjust: adjuster("none", true)}
		case routed && c.readStep(o, prefix, class):
		default:
			for option := range o.all {
				if strings.HasPrefix(option, prefix) {
					o.used[option] = true
				}
			}
			o.note(prefix+"type", class+" is not supported in this place", true)
		}
	}
	if !routed {
		o.fault("no transform of type %s: chorus publishes outbox tables", eventRouter)
	}
	for option := range o.all { // those of the predicates that nobody uses
		if option == "predicates" || strings.HasPrefix(option, "predicates.") {
			o.used[option] = true
		}
	}
}

func (c *Connector) readRouter(o *options, prefix string, s Settings) {
	table, route := prefix+"table.", prefix+"route."
	r := &c.router
	r.id = o.text(table+"field.event.id", "id")
	r.key = o.text(table+"field.event.key", "aggregateid")
	r.payload = o.text(table+"field.event.payload", "payload")
	r.timestamp = o.text(table+"field.event.timestamp", "")
	r.version = o.text(table+"field.event.schema.version", "")
	r.routeBy = o.text(route+"by.field", "aggregatetype")
	o.text(table+"field.event.type", "") // the router does not use it either
	r.invalid = o.choice(table+"op.invalid.behavior", "warn", "error", "fatal")
	r.tombstone = o.boolean(route+"tombstone.on.empty.payload", false)
	r.missingIgnored = o.choice(table+"field.additional.missing", "error", "ignore") == "ignore"
	r.keyUpdates = s.KeyUpdates
	r.topics, r.envelopes = map[string]string{}, map[string]*connect.Schema{}
	r.readRoute(o, route)
	r.readPlacement(o, table+"fields.additional.placement")
	if o.boolean(table+"expand.json.payload", false) {
		r.expand = &expander{renamed: s.RenamedFields}
	} else {
		r.expand = nil
	}
	e := &expander{
		nullBytes:    o.choice(table+"json.payload.null.behavior", "ignore", "optional_bytes") == "optional_bytes",
		emptyStrings: o.choice(table+"json.payload.empty.array.behavior", "ignore", "optional_string") == "optional_string",
		adjust:       o.adjuster(prefix+"field.name.adjustment.mode", true),
		renamed:      s.RenamedFields,
	}
	if r.expand != nil {
		r.expand = e
	}
	c.readPredicate(o, prefix, s)
	c.trace = trace{
		on:       s.OpenTelemetry,
		newID:    s.NewID,
		column:   o.text(prefix+"tracing.span.context.field", "tracingspancontext"),
		required: o.boolean(prefix+"tracing.with.context.field.only", true),
	}
	o.text(prefix+"tracing.operation.name", "") // of the span, which nobody sees here
}

func (r *router) readRoute(o *options, prefix string) {
	var err error
	if r.regex, err = javaregex.Compile(o.text(prefix+"topic.regex", `(?<routedByValue>.*)`)); err != nil {
		o.fault("%stopic.regex: %w", prefix, err)
		return
	}
	if r.replacement, err = r.regex.Replacement(o.text(prefix+"topic.replacement", `outbox.event.${routedByValue}`)); err != nil {
		o.fault("%stopic.replacement: %w", prefix, err)
	}
}

// readPlacement reads column:place[:alias],… A comma at the end is nothing.
func (r *router) readPlacement(o *options, name string) {
	text := o.text(name, "")
	if !o.has(name) {
		return
	}
	entries := strings.Split(text, ",")
	for len(entries) > 1 && entries[len(entries)-1] == "" {
		entries = entries[:len(entries)-1]
	}
	for _, entry := range entries {
		parts := strings.Split(entry, ":")
		for len(parts) > 0 && parts[len(parts)-1] == "" {
			parts = parts[:len(parts)-1]
		}
		if len(parts) != 2 && len(parts) != 3 {
			o.fault("%s: %q is not column:place or column:place:alias", name, entry)
			continue
		}
		p := placed{column: strings.TrimSpace(parts[0]), place: strings.ToLower(strings.TrimSpace(parts[1]))}
		p.alias = strings.TrimSpace(parts[len(parts)-1])
		if len(parts) == 2 {
			p.alias = p.column
		}
		if !slices.Contains([]string{"header", "envelope", "partition"}, p.place) {
			o.fault("%s: %q is no place: header, envelope or partition", name, p.place)
		}
		r.envelope = r.envelope || p.place == "envelope"
		r.additional = append(r.additional, p)
	}
}

// readPredicate reads for which topics the router is.
func (c *Connector) readPredicate(o *options, prefix string, s Settings) {
	name := o.text(prefix+"predicate", "")
	negate := o.boolean(prefix+"negate", false)
	if name == "" {
		return
	}
	p := "predicates." + name + "."
	switch class := o.text(p+"type", ""); {
	case class == topicMatches:
		r, err := javaregex.Compile(o.text(p+"pattern", ""))
		if err != nil {
			o.fault("%spattern: %w", p, err)
			return
		}
		c.router.when, c.router.whenNot = r, negate
		c.Predicate, c.Unrouted = prefix+"predicate", slices.Contains(s.Ignore, prefix+"predicate")
	case class == isTombstone && negate: // the router drops tombstones in any case
	default:
		o.note(prefix+"predicate", class+" is not supported", true)
	}
}

// Routes tells whether rows of a table go through the router.
func (c *Connector) Routes(t Name) bool {
	if c.router.when == nil {
		return true
	}
	ok, err := c.router.when.Matches(topicName(c.Prefix + "." + t.String()))
	return err == nil && ok != c.router.whenNot
}

// topicName replaces what a topic must not hold, as Debezium's naming does.
func topicName(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)) {
			return r
		}
		return '_'
	}, s)
}

// topic is where a routing value leads. What was computed is remembered.
func (r *router) topic(value string) (string, error) {
	if t, ok := r.topics[value]; ok {
		return t, nil
	}
	t := value
	ok, err := r.regex.Matches(value)
	if err == nil && ok {
		t, err = r.regex.ReplaceFirst(value, r.replacement)
	}
	if err != nil {
		return "", rowErrorf("route.topic.regex on %q: %v", value, err)
	}
	if len(r.topics) > 10_000 {
		clear(r.topics)
	}
	r.topics[value] = t
	return t, nil
}
