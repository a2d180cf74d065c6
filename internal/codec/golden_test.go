package codec

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"chorus/internal/event"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGoldenBytes compares the bytes of every fact with those that services wrote before. Topics hold such bytes, so
// a difference is a break even if a round trip still works.
func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	avro, json := newCodec(t, Avro), newCodec(t, JSON)
	texts := map[event.Type]*bytes.Buffer{}
	for _, s := range samples() {
		a, err := avro.Encode(s.fact)
		if err != nil {
			t.Fatal(err)
		}
		j, err := json.Encode(s.fact)
		if err != nil {
			t.Fatal(err)
		}
		if texts[s.fact.Type()] == nil {
			texts[s.fact.Type()] = &bytes.Buffer{}
		}
		fmt.Fprintf(texts[s.fact.Type()], "-- %s --\n%x\n%s\n", s.name, a, j)
	}
	for _, f := range event.Catalogue() {
		name := filepath.Join("testdata", "golden", string(f.Type())+".txt")
		got := texts[f.Type()].Bytes()
		if *update {
			if err := os.WriteFile(name, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from what was written before:\n%s\nwant:\n%s", name, got, want)
		}
	}
}

// TestEarlierBytes reads what earlier versions of a schema wrote; testdata/earlier holds their golden files as they were.
func TestEarlierBytes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/earlier/*.v*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	facts := map[string]event.Fact{}
	for _, s := range samples() {
		facts[s.name] = s.fact
	}
	c := newCodec(t, Avro)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		for ; len(lines) >= 3; lines = lines[3:] {
			want := facts[strings.Trim(lines[0], "- ")]
			avro, err := hex.DecodeString(lines[1])
			if err != nil || want == nil {
				t.Fatal(file, lines[0], err)
			}
			for _, value := range [][]byte{avro, []byte(lines[2])} {
				if got, err := c.Decode(want.Type(), value); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %q is %+v, %v", file, value, got, err)
				}
			}
		}
	}
}
