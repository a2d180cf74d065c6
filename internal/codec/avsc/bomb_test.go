package avsc

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// doubling is a schema of n records, each of which holds the one before it twice: small text, 2^n values.
func doubling(n int, leaf string) string {
	var fields strings.Builder
	fmt.Fprintf(&fields, `{"name":"f0","type":{"type":"record","name":"R0","fields":[%s]}}`, leaf)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&fields, `,{"name":"f%d","type":{"type":"record","name":"R%d","fields":[{"name":"a","type":"R%d"},{"name":"b","type":"R%d"}]}}`, i, i, i-1, i-1)
	}
	return `{"type":"record","name":"Bomb","fields":[` + fields.String() + `]}`
}

// TestBombs: what a registry hands out is read in time that follows its length.
func TestBombs(t *testing.T) {
	t.Parallel()
	for what, text := range map[string]string{
		"records":                doubling(60, `{"name":"x","type":"int"}`),
		"records without bytes":  strings.TrimSuffix(doubling(60, ""), "]}") + `,{"name":"g","type":{"type":"array","items":"R60"}}]}`,
		"arrays a thousand deep": strings.Repeat(`{"type":"array","items":`, 1000) + `"int"` + strings.Repeat("}", 1000),
		"nested unions":          strings.Repeat(`["null",{"type":"array","items":`, 500) + `"int"` + strings.Repeat("}]", 500),
		"maps and arrays":        strings.Repeat(`["null",{"type":"array","items":["null",{"type":"map","values":`, 200) + `"int"` + strings.Repeat("}]}]", 200),
	} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			shape, err := Parse(text)
			if err == nil {
				Full(shape, shape)
			}
			if doubles := strings.Contains(text, "R60"); doubles != (err != nil && strings.Contains(err.Error(), "nodes")) {
				t.Errorf("%s: %v", what, err)
			}
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: still at it after 10 s", what)
		}
	}
}
