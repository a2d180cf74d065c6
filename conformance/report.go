package conformance

import (
	"fmt"
	"strings"
	"time"
)

// Report is what came of a run.
type Report struct{ Results []Result }

// Result is what came of one kind of harm.
type Result struct {
	Kind   Kind
	Facts  int // that were to take effect
	Faults []string
	Took   time.Duration
}

// Failed tells whether the consumer has failed in anything.
func (r Report) Failed() bool {
	for _, result := range r.Results {
		if len(result.Faults) > 0 {
			return true
		}
	}
	return false
}

// Faults returns those of one kind.
func (r Report) Faults(k Kind) []string {
	for _, result := range r.Results {
		if result.Kind == k {
			return result.Faults
		}
	}
	return nil
}

// String is a line for each kind, and one for each fault.
func (r Report) String() string {
	var b strings.Builder
	for _, result := range r.Results {
		word := "ok"
		if len(result.Faults) > 0 {
			word = "FAILED"
		}
		fmt.Fprintf(&b, "%-14s %6d facts %8s  %s\n", result.Kind, result.Facts, result.Took.Round(10*time.Millisecond), word)
		for _, fault := range result.Faults {
			fmt.Fprintf(&b, "    %s\n", fault)
		}
	}
	return b.String()
}
