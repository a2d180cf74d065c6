// Package check is `chorus providers check`: what is wrong with a providers file, and whether an order's deadline leaves
// time for what it asks for.
package check

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"chorus/internal/intent"
	"chorus/internal/outside"
	"chorus/internal/provider"
)

// Cmd checks a file as the services would read it here, with the environment that they would have.
type Cmd struct {
	File     string        `arg:"" optional:"" help:"The providers file. Empty: the one that is shipped." type:"existingfile"`
	Deadline time.Duration `help:"How long an order may take to be confirmed." default:"15m" env:"CHORUS_DEADLINE"`
	Timeout  time.Duration `help:"Longest exchange with a provider that has no timeout of its own." default:"5s" env:"CHORUS_CALL_TIMEOUT"`
	Calls    intent.Config `embed:"" prefix:"call-" envprefix:"CHORUS_CALL_"`
	Print    bool          `help:"Print the shipped file, to start one of your own from."`
}

// Run prints all faults, or the routes and the budgets.
func (c *Cmd) Run() error {
	if c.Print {
		_, err := os.Stdout.Write(provider.Shipped())
		return err
	}
	return c.check(os.Stdout)
}

func (c *Cmd) check(out io.Writer) error {
	file, err := provider.Load(c.File)
	if err != nil {
		if faults, ok := err.(provider.Faults); ok {
			word := "faults"
			if len(faults) == 1 {
				word = "fault"
			}
			return fmt.Errorf("%d %s:\n%w", len(faults), word, err)
		}
		return err
	}
	for _, shape := range outside.Shapes() {
		to := strings.Join(file.Providers(shape.Step), ", ")
		fmt.Fprintf(out, "%-12s -> %s\n", shape.Step, cmp.Or(to, "nobody"))
	}
	fmt.Fprintln(out)
	budgets, total := c.Calls.Budgets(file, c.Timeout)
	for _, b := range budgets {
		fmt.Fprintf(out, "%-10s may take %s at %s: all attempts, look-ups and cancels by key\n", b.Step, b.Longest.Round(time.Second), b.Provider)
	}
	if total > c.Deadline {
		return fmt.Errorf("the steps may take %s, which is longer than the deadline of an order, %s", total.Round(time.Second), c.Deadline)
	}
	_, err = fmt.Fprintf(out, "OK: %s in all, within the deadline of %s\n", total.Round(time.Second), c.Deadline)
	return err
}
