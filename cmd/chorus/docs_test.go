package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"chorus/internal/docscheck"
)

// table is a document whose rows name tests and commands.
type table struct {
	doc   string
	ids   []string // one row each, and no other
	tests int      // cell after the identity that names at least one test or script
	see   int      // cell with the commands that show it; -1 for none
	files bool     // where there is nothing to test a file will do
}

// tables are the documents that are held to the code. A row more is a line here.
var tables = []table{
	{doc: "docs/features.md", tests: 2, see: -1, files: true, ids: docscheck.Numbered("A", 1, 150)},
	{doc: "docs/cdc-failures.md", tests: 2, see: -1, ids: append(docscheck.Numbered("E", 1, 41), "CDC-01", "CDC-04", "CDC-07", "CDC-08",
		"CDC-09", "CDC-10", "CDC-13", "CDC-15", "CDC-17", "CDC-18", "CDC-19", "CDC-21", "CDC-22")},
	{doc: "docs/failures.md", tests: 2, see: 3, ids: slices.Concat(
		docscheck.Numbered("C", 1, 52), docscheck.Numbered("E", 1, 25), docscheck.Numbered("L", 1, 32),
		[]string{"PRV-01", "PRV-03", "PRV-05", "PRV-06", "PRV-09", "PRV-10", "PRV-11", "PRV-12", "PRV-13"},
		[]string{"CMP-01", "CMP-03", "CMP-04", "CMP-07", "CMP-08", "CMP-09", "CMP-13"},
		[]string{"CON-01", "CON-03", "CON-04", "CON-05", "CON-07", "CON-10", "CON-11", "CON-12", "CON-15", "CON-17", "CON-20", "CON-21"},
	)},
}

// TestDocumentsNameWhatThereIs: no row is missing, each names a test that exists, and each command is one that would run.
func TestDocumentsNameWhatThereIs(t *testing.T) {
	t.Chdir("../..") // documents name files from the root, and so do their commands
	code, err := docscheck.Read(".")
	if err != nil {
		t.Fatal(err)
	}
	lines := newReader(t)
	for _, tab := range tables {
		rows, err := docscheck.Rows(tab.doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range docscheck.Complete(rows, tab.ids) {
			t.Errorf("%s: %s", tab.doc, fault)
		}
		for _, r := range rows {
			for _, fault := range faults(code, lines, tab, r) {
				t.Errorf("%s:%d: %s: %s", tab.doc, r.Line, r.ID, fault)
			}
		}
	}
}

func faults(code *docscheck.Code, lines *reader, tab table, r docscheck.Row) (found []string) {
	tested := false
	for _, name := range docscheck.Spans(r.Cell(tab.tests)) {
		tested = tested || docscheck.IsTest(name) || tab.files
		if fault := code.Lacks(name); fault != "" {
			found = append(found, fault)
		}
	}
	if !tested {
		found = append(found, "no test is named")
	}
	if tab.see < 0 {
		return found
	}
	for _, command := range docscheck.Spans(r.Cell(tab.see)) {
		fault, known := code.LacksCommand(command)
		if !known {
			fault = lines.misspelt(command)
		}
		if fault != "" {
			found = append(found, fault)
		}
	}
	return found
}

// TestReadmeCommandsParse: what people copy from the documents is understood by the program.
func TestReadmeCommandsParse(t *testing.T) {
	t.Chdir("../..")
	docs, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	count, lines := 0, newReader(t)
	for _, doc := range append(docs, "README.md", "CONTRIBUTING.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, command := range docscheck.Spans(line) {
				if !strings.HasPrefix(command, "bin/chorus ") || strings.Contains(command, "…") {
					continue
				}
				count++
				if fault := lines.misspelt(command); fault != "" {
					t.Errorf("%s:%d: %s", doc, i+1, fault)
				}
			}
		}
	}
	if count < 10 {
		t.Errorf("%d commands were found in the documents", count)
	}
}

func TestMisspeltCommandsAreFound(t *testing.T) {
	lines := newReader(t)
	for command, want := range map[string]string{
		"bin/chorus verify": "",
		"bin/chorus providers set pay-standard --operation undo --fail-rate 1": "",
		"bin/chorus trace ORDER":            "",
		"bin/chorus verifi":                 "verifi",
		"bin/chorus trace ORDER --no-such":  "no-such",
		"bin/chorus retry ORDER nothing":    "nothing",
		"chorus verify":                     "neither",
		"bin/chorus place --customer 'a b'": "item",
		"bin/chorus load --help":            "",
	} {
		if got := lines.misspelt(command); want == "" && got != "" || want != "" && !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

var word = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)

// reader has the program's own table read command lines.
type reader struct {
	parser *kong.Kong
	said   map[string]string // of a command that was read before: documents name the same ones again and again
}

func newReader(t *testing.T) *reader {
	t.Helper()
	parser, err := kong.New(new(commands), kong.Name("chorus"), kong.DefaultEnvars("CHORUS"), kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) { panic(errHelp) }))
	if err != nil {
		t.Fatal(err)
	}
	return &reader{parser, map[string]string{}}
}

var errHelp = errors.New("the help was asked for")

// misspelt says what is wrong with a command line; "" when it would run. ORDER stands for an order's number.
func (r *reader) misspelt(command string) string {
	said, ok := r.said[command]
	if !ok {
		said = r.read(command)
		r.said[command] = said
	}
	return said
}

func (r *reader) read(command string) (fault string) {
	line, ok := strings.CutPrefix(command, "bin/chorus ")
	if !ok {
		return fmt.Sprintf("%q is neither bin/chorus, make nor go test", command)
	}
	var args []string
	for _, w := range word.FindAllString(line, -1) {
		if w == "ORDER" {
			w = "1001"
		}
		args = append(args, strings.Trim(w, `'"`))
	}
	defer func() {
		if p := recover(); p != nil && p != any(errHelp) {
			panic(p)
		}
	}()
	if _, err := r.parser.Parse(args); err != nil {
		return fmt.Sprintf("%q: %v", command, err)
	}
	return ""
}
