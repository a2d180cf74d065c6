package cdc

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"

	"github.com/prometheus/client_golang/prometheus"
)

// Verdict is how it stands with a precondition.
type Verdict string

const (
	OK      Verdict = "ok"
	Warning Verdict = "warning" // it works, and will hurt one day
	Problem Verdict = "problem" // nothing is published, or somebody else is harmed
	Unknown Verdict = "unknown" // it could not be found out
)

// Finding is one precondition of a source, or of Kafka when Source is empty.
type Finding struct {
	Source  string  `json:"source,omitempty"`
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Says    string  `json:"says"`           // what is there
	Cure    string  `json:"cure,omitempty"` // what to do about it
}

// Report is what Check has found, in the order in which it was looked at.
type Report struct {
	Findings []Finding `json:"findings"`
}

func (r *Report) add(source, check string, v Verdict, cure, says string, args ...any) {
	r.Findings = append(r.Findings, Finding{Source: source, Check: check, Verdict: v, Says: fmt.Sprintf(says, args...), Cure: cure})
}

// Problems counts what must hold and does not.
func (r Report) Problems() (n int) {
	for _, f := range r.Findings {
		if f.Verdict == Problem {
			n++
		}
	}
	return n
}

// Print writes the report for people: a line for each precondition, and the cure
// below it where there is one.
func (r Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		of := f.Source
		if of == "" {
			of = "kafka"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.Verdict, of, f.Check, f.Says)
		if f.Cure != "" {
			fmt.Fprintf(t, "\t\t\t→ %s\n", f.Cure)
		}
	}
	return t.Flush()
}

// Check looks at every precondition of every source and of Kafka. It changes
// nothing. An error means that the configuration cannot work: there is then
// nothing to look at. A server that does not answer is a finding.
func Check(ctx context.Context, log *slog.Logger, cfg Config) (Report, error) {
	cfg, sources, err := prepare(log, cfg, newMetrics(prometheus.NewRegistry()))
	if err != nil {
		return Report{}, err
	}
	var r Report
	out := checkKafka(ctx, cfg, &r)
	if out != nil {
		defer out.client.Close()
	}
	for _, s := range sources {
		c := checker{source: s, report: &r, out: out}
		c.checkSource(ctx)
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
	}
	return r, nil
}

// checker looks at one source.
type checker struct {
	*source
	report           *Report
	updates, deletes bool      // what the publication publishes beside inserts
	out              *producer // asks about topics; nil when Kafka does not answer
}

func (c *checker) ok(check, says string, args ...any) {
	c.report.add(c.cfg.Name, check, OK, "", says, args...)
}

func (c *checker) warn(check, cure, says string, args ...any) {
	c.report.add(c.cfg.Name, check, Warning, cure, says, args...)
}

func (c *checker) problem(check, cure, says string, args ...any) {
	c.report.add(c.cfg.Name, check, Problem, cure, says, args...)
}

func (c *checker) unknown(check, cure, says string, args ...any) {
	c.report.add(c.cfg.Name, check, Unknown, cure, says, args...)
}
