package debezium

import (
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	"chorus/cdc/connect"
)

// trace carries the context of a trace from a column into headers, as the
// router does when OpenTelemetry is on Connect's class path.
type trace struct {
	on       bool
	newID    func(n int) []byte
	column   string
	required bool // rows without a context get none
}

var traceParent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})`)

// headers appends traceparent and tracestate for a span of its own.
func (t *trace) headers(headers []typed, row *connect.Struct, at int) []typed {
	if !t.on {
		return headers
	}
	var text string
	given := false
	if at >= 0 {
		text, given = row.Values[at].(string)
	}
	if !given && t.required {
		return headers
	}
	properties := readProperties(text)
	id, flags, state := "", "03", ""
	if m := traceParent.FindStringSubmatch(properties["traceparent"]); m != nil && strings.Trim(m[1], "0") != "" && strings.Trim(m[2], "0") != "" {
		id, flags, state = m[1], m[3], properties["tracestate"]
	}
	if id == "" {
		id = hex.EncodeToString(t.newID(16))
	}
	parent := "00-" + id + "-" + hex.EncodeToString(t.newID(8)) + "-" + flags
	headers = append(headers, typed{"traceparent", requiredString, parent})
	if state != "" {
		headers = append(headers, typed{"tracestate", requiredString, state})
	}
	return headers
}

// readProperties reads the text of java.util.Properties, as far as contexts need it.
func readProperties(text string) map[string]string {
	found := map[string]string{}
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimLeft(line, " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		i := strings.IndexAny(line, "=: \t")
		if i < 0 {
			found[line] = ""
			continue
		}
		value := strings.TrimLeft(line[i:], " \t")
		if value != "" && (value[0] == '=' || value[0] == ':') {
			value = value[1:]
		}
		found[line[:i]] = strings.ReplaceAll(strings.TrimLeft(value, " \t"), `\`, "")
	}
	return found
}

// parseZoned reads what a timestamptz became.
func parseZoned(text string) (ms int64, err error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	return at.UnixMilli(), err
}
