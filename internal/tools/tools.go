// Package tools is what a person does with a running cluster from a terminal: place and move orders, load and replay, follow one
// order, verify the whole, look at lag and dead letters, repair. Each command is a struct with its flags and a Run.
//
// The tools keep nothing. They use the interfaces that everybody may use: the front address, each service's inspection
// API, Kafka. A tool that is killed leaves nothing half done but what its help says.
package tools

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"
)

// ExitError ends the program with a code. Without an error nothing more is printed: the command has said all.
type ExitError struct {
	Code int
	Err  error
}

func (e ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e ExitError) Unwrap() error { return e.Err }

// Codes beside 0 and the 1 of any failure.
const codeEndedBadly = 2 // place --wait: rejected, failed or cancelled

// Output is where a command prints, and how. Results go to standard output, progress and remarks to standard error.
type Output struct {
	JSON bool `help:"Print JSON." name:"json"`

	out, err io.Writer // tests set them
}

func (o Output) stdout() io.Writer {
	if o.out == nil {
		return os.Stdout
	}
	return o.out
}

func (o Output) stderr() io.Writer {
	if o.err == nil {
		return os.Stderr
	}
	return o.err
}

// printJSON prints v, indented.
func (o Output) printJSON(v any) error {
	enc := json.NewEncoder(o.stdout())
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func (o Output) printf(format string, args ...any) {
	fmt.Fprintf(o.stdout(), format, args...) // a reader that has gone wants no more
}

// remark tells what is no result.
func (o Output) remark(format string, args ...any) {
	fmt.Fprintf(o.stderr(), format+"\n", args...)
}

// table prints rows in columns; fill writes cells with tabs between them.
func (o Output) table(fill func(row func(cells ...string))) {
	w := tabwriter.NewWriter(o.stdout(), 0, 0, 2, ' ', 0)
	fill(func(cells ...string) {
		for i, c := range cells {
			cells[i] = clean(c)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	})
	w.Flush()
}

// clean keeps what others wrote (names, reasons, bodies) from steering the terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, s)
}

// isTerminal reports whether a person reads what is written there.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
