package debezium

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Note says of one option that it is not honoured as Debezium honours it.
type Note struct {
	Option string
	Why    string
	Alters bool // records would differ: refused unless the option is to be ignored
}

// String is for a log line or an error.
func (n Note) String() string { return n.Option + ": " + n.Why }

// options reads a connector's configuration and keeps book of what was read.
type options struct {
	all    map[string]string
	used   map[string]bool
	notes  []Note
	faults []error
}

// text is an option's value, or the default when it is not set.
func (o *options) text(name, otherwise string) string {
	o.used[name] = true
	if v, ok := o.all[name]; ok {
		return strings.TrimSpace(v)
	}
	return otherwise
}

func (o *options) has(name string) bool { _, ok := o.all[name]; return ok }

func (o *options) boolean(name string, otherwise bool) bool {
	switch v := strings.ToLower(o.text(name, "")); v {
	case "":
		return otherwise
	case "true", "false":
		return v == "true"
	default:
		o.fault("%s=%q is neither true nor false", name, v)
		return otherwise
	}
}

// choice is one of several values; case does not count.
func (o *options) choice(name string, values ...string) string {
	v := strings.ToLower(o.text(name, values[0]))
	if !slices.Contains(values, v) {
		o.fault("%s=%q is not one of %s", name, v, strings.Join(values, ", "))
		return values[0]
	}
	return v
}

func (o *options) list(name string) []string {
	var list []string
	for _, v := range strings.Split(o.text(name, ""), ",") {
		if v = strings.TrimSpace(v); v != "" {
			list = append(list, v)
		}
	}
	return list
}

func (o *options) fault(format string, args ...any) {
	o.faults = append(o.faults, fmt.Errorf(format, args...))
}

// note says that an option is set and of no effect here.
func (o *options) note(name, why string, alters bool) {
	o.used[name] = true
	o.notes = append(o.notes, Note{Option: name, Why: why, Alters: alters})
}

// rest notes all options that nobody has read.
func (o *options) rest() {
	for _, name := range slices.Sorted(maps.Keys(o.all)) {
		if o.used[name] {
			continue
		}
		why, alters := judge(name, o.all[name])
		if why != "" {
			o.note(name, why, alters)
		}
	}
	slices.SortStableFunc(o.notes, func(a, b Note) int { return strings.Compare(a.Option, b.Option) })
}

// families are what is known about options that have no counterpart here. A name
// that ends in a dot stands for all that begin with it; without a reason nothing
// is lost.
var families = []struct {
	names  string
	why    string
	alters bool
}{
	{"name connector.class tasks.max plugin.name topic.heartbeat.prefix topic.heartbeat.name tombstones.on.delete", "", false},
	{"max.batch.size max.queue.size max.queue.size.in.bytes poll.interval.ms poll.dispatch.interval.ms query.fetch.size queue.provider.type " +
		"snapshot.fetch.size snapshot.max.threads snapshot.max.threads.multiplier legacy.snapshot.max.threads", "chorus bounds its memory by itself", false},
	{"heartbeat.interval.ms heartbeat.action.query", "chorus moves an idle slot without heartbeats, and publishes none", false},
	{"status.update.interval.ms lsn.flush.mode lsn.flush.timeout.ms lsn.flush.timeout.action flush.lsn.source", "chorus confirms what Kafka has acknowledged, by its own interval", false},
	{"offset. errors.retry. errors.max.retries retriable.restart.connector.wait.ms slot.max.retries slot.retry.delay.ms restart.", "chorus tries again until it works, and keeps its position in the slot", false},
	{"errors.log. log. custom.metric.tags statistics.metrics.enabled connection.validation.timeout.ms executor.shutdown.timeout.ms guardrail.", "it is about Debezium's own logs, metrics and limits", false},
	{"snapshot.isolation.mode snapshot.locking.mode snapshot.lock.timeout.ms snapshot.delay.ms streaming.delay.ms snapshot.tables.order.by.row.count xmin.fetch.interval.ms read.only", "chorus reads its snapshot without locks", false},
	{"schema.refresh.mode table.ignore.builtin include.schema. event.processing.failure.handling.mode event.converting.failure.handling.mode skip.messages.without.change " +
		"message.key.columns sourceinfo.struct.maker topic.cache.size internal.", "it does not change the records of an outbox", false},
	{"slot.drop.on.stop replica.identity.autoset.values database.initial.statements", "chorus leaves the database as it is", false},
	{"signal. incremental. notification.", "signals and notifications are not supported", false},
	{"exactly.once.support transaction.boundary", "chorus has a delivery option of its own", false},
	{"producer.override.bootstrap.servers producer.override.security.protocol producer.override.sasl.mechanism producer.override.sasl.jaas.config " +
		"producer.override.ssl.truststore.location producer.override.ssl.truststore.type producer.override.ssl.truststore.certificates producer.override.ssl.truststore.password " +
		"producer.override.ssl.keystore.location producer.override.ssl.keystore.type producer.override.ssl.keystore.certificate.chain producer.override.ssl.keystore.key " +
		"producer.override.ssl.endpoint.identification.algorithm", "", false}, // the caller reads them
	{"producer.override.", "chorus sets its producer so that nothing is lost or reordered", false},
	{"topic.creation.", "topics are made with default.partitions and default.replication.factor alone", false},
	{"column.mask. column.truncate. column.propagate. datatype.propagate. converters post.processors transaction.metadata.factory topic.naming.strategy " +
		"topic.delimiter hstore.handling.mode include.unknown.datatypes interval.handling.mode money.fraction.digits snapshot.query.mode snapshot.include.collection.list", "it is not supported", true},
	{"config.providers config.action.reload header.converter. key.converter. value.converter.", "it is not supported", true},
}

// judge looks an option up that was not read.
func judge(name, value string) (why string, alters bool) {
	for _, f := range families {
		for _, n := range strings.Fields(f.names) {
			if name == n || strings.HasSuffix(n, ".") && strings.HasPrefix(name, n) {
				if defaults[name+"="+value] {
					return "", false
				}
				return f.why, f.alters
			}
		}
	}
	return "Debezium 3.6 has no such option, or chorus does not know it", false
}

// defaults are values that change nothing.
var defaults = map[string]bool{
	"hstore.handling.mode=json": true, "include.unknown.datatypes=false": true, "interval.handling.mode=numeric": true, "topic.delimiter=.": true,
	"topic.naming.strategy=io.debezium.schema.SchemaTopicNamingStrategy": true, "money.fraction.digits=2": true, "snapshot.query.mode=select_all": true,
	"key.converter.schemas.enable=false": true, "value.converter.schemas.enable=false": true, "header.converter.schemas.enable=false": true,
	"key.converter.schemas.enable=true": true, "value.converter.schemas.enable=true": true,
}
