package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"chorus/internal/broker"
	"chorus/internal/codec"
	"chorus/internal/event"
)

// TailCmd prints the facts of a topic.
type TailCmd struct {
	Cluster
	Output
	Topic  string `arg:"" help:"The topic, or its owner: orders.events, or orders. Several with commas between; all for every topic."`
	From   Place  `help:"Where to begin: beginning, end, or -N for the last N of each partition. Without it -10, and with --order the beginning." placeholder:"PLACE"`
	Follow bool   `help:"Go on with what comes." short:"f"`
	Order  Number `help:"Only facts of this order." placeholder:"NUMBER" optional:""`
	Raw    bool   `help:"Do not decode the values: print their bytes."`
}

// Help is shown by --help.
func (*TailCmd) Help() string {
	return `Prints committed facts, one a line: when, where, which order, what, and the decoded value. It belongs to no consumer group and leaves no trace.

  chorus tail orders -f
  chorus tail all --order 8842
  chorus tail billing --from -100 --json | jq .value.amount

A record that is no fact is printed with the reason why.`
}

// line is one record as JSON.
type line struct {
	Topic       string            `json:"topic"`
	Partition   int32             `json:"partition"`
	Offset      int64             `json:"offset"`
	Timestamp   time.Time         `json:"timestamp"`
	Key         string            `json:"key"`
	Headers     map[string]string `json:"headers"`
	Type        event.Type        `json:"type,omitempty"`
	Value       any               `json:"value"`
	Undecodable string            `json:"undecodable,omitempty"`
}

// Run prints until all is read, or for ever with --follow.
func (c *TailCmd) Run(ctx context.Context, log *slog.Logger) error {
	cfg := broker.TailConfig{Follow: c.Follow}
	var err error
	if cfg.Topics, err = topicsOf(c.Topic); err != nil {
		return err
	}
	if cfg.Last, err = c.last(); err != nil {
		return err
	}
	all, err := c.addresses(ctx)
	if err != nil {
		return err
	}
	if cfg.Brokers, err = all.brokers(); err != nil {
		return err
	}
	if err := all.kafkaAlive(ctx); err != nil {
		return err
	}
	reader := lineReader{raw: c.Raw}
	if !c.Raw {
		if reader.codec, err = all.codec(ctx, log); err != nil {
			return err
		}
		if reader.bodies, err = codec.New(nil, codec.JSON); err != nil {
			return err
		}
	}
	enc := json.NewEncoder(c.stdout())
	enc.SetEscapeHTML(false)
	return broker.Tail(ctx, cfg, func(r broker.Record) error {
		if c.Order.OrderNo != 0 && string(r.Key) != c.Order.String() {
			return nil
		}
		l := reader.read(ctx, r)
		if c.JSON {
			return enc.Encode(l)
		}
		_, err := fmt.Fprintln(c.stdout(), l)
		return err
	})
}

// topicsOf accepts owners' names for their topics.
func topicsOf(text string) ([]string, error) {
	var known, topics []string
	for _, owner := range event.Owners() {
		known = append(known, owner.Topic())
	}
	for name := range strings.SplitSeq(text, ",") {
		if name == "all" {
			topics = append(topics, known...)
			continue
		}
		topic := name
		if !strings.Contains(name, ".") {
			topic = event.Participant(name).Topic()
		}
		if !slices.Contains(known, topic) {
			return nil, fmt.Errorf("there is no topic %s; topics are %s", name, strings.Join(known, ", "))
		}
		topics = append(topics, topic)
	}
	return topics, nil
}

// Place is where to begin in a topic.
type Place string

// Decode is for kong, which would take the -3 of --from -3 for a flag.
func (p *Place) Decode(ctx *kong.DecodeContext) error {
	token := ctx.Scan.Pop()
	if token.IsEOL() {
		return errors.New("want beginning, end, or -N for the last N records")
	}
	*p = Place(token.String())
	return nil
}

// last says how many records before the end; negative for all.
func (c *TailCmd) last() (int64, error) {
	switch c.From {
	case "beginning":
		return -1, nil
	case "end":
		return 0, nil
	case "":
		if c.Order.OrderNo != 0 {
			return -1, nil
		}
		return 10, nil
	}
	if n, err := strconv.ParseInt(string(c.From), 10, 64); err == nil && n < 0 {
		return -n, nil
	}
	return 0, fmt.Errorf("--from %s: want beginning, end, or -N for the last N records", c.From)
}

// lineReader makes lines of records.
type lineReader struct {
	raw    bool
	codec  *codec.Codec
	bodies *codec.Codec // writes JSON
}

func (lr lineReader) read(ctx context.Context, r broker.Record) line {
	l := line{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UTC(), Key: string(r.Key), Headers: map[string]string{},
	}
	headers := make([]codec.Header, len(r.Headers))
	for i, h := range r.Headers {
		l.Headers[h.Key] = string(h.Value)
		headers[i] = codec.Header(h)
	}
	l.Type = event.Type(l.Headers["eventType"])
	if lr.raw {
		l.Value = r.Value // JSON makes base64 of it
		return l
	}
	env, err := lr.codec.Envelope(r.Key, headers, r.Value)
	var unknown *codec.Error
	if errors.As(err, &unknown) && unknown.SchemaID != 0 && lr.codec.Learn(ctx, unknown.SchemaID) == nil {
		env, err = lr.codec.Envelope(r.Key, headers, r.Value)
	}
	var body []byte
	if err == nil {
		body, err = lr.bodies.Encode(env.Fact)
	}
	if err != nil {
		l.Undecodable, l.Value = err.Error(), r.Value
		return l
	}
	l.Value = json.RawMessage(body)
	return l
}

// String is the line for people.
func (l line) String() string {
	at := l.Timestamp.Local().Format("15:04:05.000")
	value := ""
	switch v := l.Value.(type) {
	case json.RawMessage:
		value = string(v)
	case []byte:
		if value = string(v); !utf8.ValidString(value) {
			value = fmt.Sprintf("%x", v)
		}
	}
	if l.Undecodable != "" {
		value = "NOT A FACT: " + l.Undecodable + ": " + value
	}
	return clean(fmt.Sprintf("%s  %s/%d@%d  %s  %s  %s", at, l.Topic, l.Partition, l.Offset, l.Key, l.Type, value))
}
