package cdc_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// goldenRecord is a line of expected.jsonl.
type goldenRecord struct {
	Topic     string   `json:"topic"`
	Partition *int32   `json:"partition"`
	Key       *string  `json:"key"`
	Value     *string  `json:"value"`
	Headers   [][]any  `json:"headers"`
	Timestamp *int64   `json:"timestamp"`
	Like      jsonText `json:"like"`
}

type jsonText = json.RawMessage

// exception is a difference that is meant.
type exception struct {
	pattern string // of names of cases
	kind    string // more, less, ignore
	what    string // of less: the topic; of ignore: the option
	reason  string
}

type exceptionList []*exception

// readExceptions reads lines of the form: case, kind, argument or -, reason.
func readExceptions(t *testing.T) exceptionList {
	t.Helper()
	f, err := os.Open("testdata/golden/exceptions.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list exceptionList
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 6 || !slices.Contains([]string{"more", "less", "ignore"}, words[1]) {
			t.Fatalf("exception without a reason: %q", line)
		}
		list = append(list, &exception{pattern: words[0], kind: words[1], what: words[2], reason: strings.Join(words[3:], " ")})
	}
	return list
}

func (l exceptionList) of(name string) (all []exception) {
	for _, e := range l {
		if ok, _ := path.Match(e.pattern, name); ok {
			all = append(all, *e)
		}
	}
	return all
}

// records reads all that is in the topics.
func (c *goldenCase) records() []*kgo.Record {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.broker.Addr()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	var total int64
	starts := map[string]map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset == 0 || strings.HasPrefix(o.Topic, "__") {
			return
		}
		total += o.Offset
		if starts[o.Topic] == nil {
			starts[o.Topic] = map[int32]kgo.Offset{}
		}
		starts[o.Topic][o.Partition] = kgo.NewOffset().AtStart()
	})
	client.AddConsumePartitions(starts)
	var got []*kgo.Record
	for int64(len(got)) < total {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			c.t.Fatalf("%d of %d records read", len(got), total)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, r) })
	}
	return got
}

// lane is a partition of a topic, or the records of a topic without a key, whose
// partition is free.
type lane struct {
	topic     string
	partition int32
}

const free int32 = -1

// compare says what differs.
func (c *goldenCase) compare(got []*kgo.Record, began time.Time) (problems []string) {
	want := map[lane][]goldenRecord{}
	unkeyed := map[string]bool{} // topics whose records without a key may be anywhere
	for _, r := range c.expected {
		l := lane{r.Topic, free}
		if r.Partition != nil {
			l.partition = *r.Partition
		} else {
			unkeyed[r.Topic] = true
		}
		want[l] = append(want[l], r)
	}
	have := map[lane][]*kgo.Record{}
	for _, r := range got {
		l := lane{r.Topic, r.Partition}
		if r.Key == nil && unkeyed[r.Topic] {
			l.partition = free
		}
		have[l] = append(have[l], r)
	}
	more := c.exception("more")
	stopped := c.outcome != "ok"
	extras := 0
	for l, records := range have {
		expected := want[l]
		delete(want, l)
		slices.SortStableFunc(records, func(a, b *kgo.Record) int { return int(a.Offset - b.Offset) })
		if l.partition == free {
			sortFree(expected, records)
		}
		for i, r := range records {
			if i >= len(expected) {
				extras++
				switch {
				case stopped && more:
				case stopped && c.foreign:
					c.t.Logf("Debezium ended; published here is also %s", show(r))
				default:
					problems = append(problems, fmt.Sprintf("%s[%d]: not expected: %s", l.topic, l.partition, show(r)))
				}
				continue
			}
			if d := differs(expected[i], r, began); d != "" {
				problems = append(problems, fmt.Sprintf("%s[%d] at %d: %s", l.topic, l.partition, i, d))
			}
		}
		for _, e := range expected[min(len(records), len(expected)):] {
			problems = append(problems, fmt.Sprintf("%s[%d]: missing: key %s value %s", l.topic, l.partition, decoded(e.Key), decoded(e.Value)))
		}
	}
	for l, expected := range want {
		if slices.ContainsFunc(c.exceptions, func(e exception) bool { return e.kind == "less" && e.what == l.topic }) {
			continue
		}
		problems = append(problems, fmt.Sprintf("%s[%d]: %d records are missing", l.topic, l.partition, len(expected)))
	}
	switch {
	case more && stopped && extras == 0:
		problems = append(problems, "exceptions.txt says that more is published here, but it is not")
	case stopped && !more && !c.foreign && c.stalled == "" && c.refused == nil:
		problems = append(problems, "Debezium stops here; the publisher neither does nor publishes more")
	case !stopped && c.refused != nil:
		problems = append(problems, "the publisher refuses: "+c.refused.Error())
	case !stopped && c.stalled != "":
		problems = append(problems, "the publisher stands still: "+c.stalled)
	}
	return problems
}

func (c *goldenCase) exception(kind string) bool {
	return slices.ContainsFunc(c.exceptions, func(e exception) bool { return e.kind == kind })
}

func sortFree(expected []goldenRecord, records []*kgo.Record) {
	slices.SortStableFunc(expected, func(a, b goldenRecord) int { return strings.Compare(decoded(a.Value), decoded(b.Value)) })
	slices.SortStableFunc(records, func(a, b *kgo.Record) int { return bytes.Compare(a.Value, b.Value) })
}

// differs says how a record differs from what is expected; empty when it does not.
func differs(e goldenRecord, r *kgo.Record, began time.Time) string {
	switch {
	case !same(e.Key, r.Key):
		return fmt.Sprintf("key %q, want %s", r.Key, decoded(e.Key))
	case !same(e.Value, r.Value):
		return fmt.Sprintf("value %s, want %s", clip(string(r.Value)), clip(decoded(e.Value)))
	case e.Timestamp != nil && *e.Timestamp != r.Timestamp.UnixMilli():
		return fmt.Sprintf("timestamp %d, want %d", r.Timestamp.UnixMilli(), *e.Timestamp)
	case e.Timestamp == nil && (r.Timestamp.Before(began.Add(-5*time.Second)) || r.Timestamp.After(time.Now().Add(5*time.Second))):
		return fmt.Sprintf("timestamp %s is not of this run", r.Timestamp)
	case len(e.Headers) != len(r.Headers):
		return fmt.Sprintf("headers %s, want %v", showHeaders(r), e.Headers)
	}
	for i, h := range e.Headers {
		name, _ := h[0].(string)
		if r.Headers[i].Key != name || !sameHeader(h, r.Headers[i].Value) {
			return fmt.Sprintf("header %d is %s=%q, want %v", i, r.Headers[i].Key, r.Headers[i].Value, h)
		}
	}
	return ""
}

func same(want *string, got []byte) bool {
	if want == nil || got == nil {
		return want == nil && got == nil
	}
	raw, err := base64.StdEncoding.DecodeString(*want)
	return err == nil && bytes.Equal(raw, got)
}

var uuidText = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// sameHeader compares a value, or its form where it is another in each run.
func sameHeader(h []any, got []byte) bool {
	text, _ := h[1].(string)
	if text != "*" {
		if h[1] == nil {
			return same(nil, got)
		}
		return same(&text, got)
	}
	like, _ := h[2].(string)
	if like == "a UUID" {
		return uuidText.Match(got)
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(like), `\*`, `[0-9a-f]+`)
	return regexp.MustCompile(`^` + pattern + `$`).Match(got)
}

func decoded(s *string) string {
	if s == nil {
		return "null"
	}
	raw, _ := base64.StdEncoding.DecodeString(*s)
	return string(raw)
}

func clip(s string) string {
	if len(s) > 1200 {
		return fmt.Sprintf("%s… (%d bytes)", s[:300], len(s))
	}
	return s
}

func show(r *kgo.Record) string {
	return fmt.Sprintf("key %q value %s headers %s", r.Key, clip(string(r.Value)), showHeaders(r))
}

func showHeaders(r *kgo.Record) string {
	var b strings.Builder
	for _, h := range r.Headers {
		fmt.Fprintf(&b, "%s=%q ", h.Key, h.Value)
	}
	return b.String()
}
