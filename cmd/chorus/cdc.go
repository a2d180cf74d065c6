package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"chorus/cdc"
)

// cdcCmds is `chorus cdc`, which alone runs the publisher, and its tools. A tool
// takes the configuration of the process as it is: the same file, flags and
// variables, with one more word in the command.
type cdcCmds struct {
	Run        cdcRunCmd      `cmd:"" default:"withargs" help:"Run the publisher; it is what chorus cdc does alone."`
	Check      cdcCheckCmd    `cmd:"" help:"Say of every precondition whether it holds, and if not, what to do."`
	Recover    cdcRecoverCmd  `cmd:"" help:"Publish again what the outbox still holds, after a slot was lost; says what it would do until told to."`
	Replay     cdcReplayCmd   `cmd:"" help:"Publish rows again, marked by a header, because somebody wants them again."`
	Quarantine quarantineCmds `cmd:"" help:"Records that Kafka has refused, and those behind them: look, publish, skip."`
	Prune      cdcPruneCmd    `cmd:"" help:"Delete rows that are published and old, or drop their partitions, once."`
}

type cdcRunCmd struct {
	Config cdc.Config `embed:""`
}

func (c *cdcRunCmd) Run(ctx context.Context, log *slog.Logger) error {
	return cdc.Run(ctx, log, c.Config)
}

type cdcCheckCmd struct {
	Config cdc.Config `embed:""`
	JSON   bool       `help:"Print JSON." name:"json"`
}

// Help is shown by --help.
func (*cdcCheckCmd) Help() string {
	return `It changes nothing and may be run beside a publisher. The exit code is 1 when something does not hold that must; a warning is no such thing.`
}

func (c *cdcCheckCmd) Run(ctx context.Context, log *slog.Logger) error {
	report, err := cdc.Check(ctx, log, c.Config)
	if err != nil {
		return err
	}
	if err := printed(c.JSON, report, report.Print); err != nil {
		return err
	}
	if n := report.Problems(); n > 0 {
		return fmt.Errorf("%d of %d preconditions do not hold", n, len(report.Findings))
	}
	return nil
}

// cdcSelection are the rows that a tool takes.
type cdcSelection struct {
	Of         string   `help:"Name of the source; needed when there are several." placeholder:"NAME"`
	From       moment   `help:"Rows of this time and later: RFC 3339, or so long ago, as 2h." placeholder:"TIME"`
	To         moment   `help:"Rows before this time." placeholder:"TIME"`
	ID         []string `help:"The row of this id. May be repeated." placeholder:"ID"`
	TimeColumn string   `help:"Column that says when a row was written; occurredat, or the event router's timestamp, by default." placeholder:"NAME"`
}

func (c cdcSelection) selection() cdc.Selection {
	return cdc.Selection{Source: c.Of, From: c.From.Time, To: c.To.Time, IDs: c.ID, TimeColumn: c.TimeColumn}
}

// moment is a point in time on the command line.
type moment struct{ time.Time }

// UnmarshalText is called by kong.
func (m *moment) UnmarshalText(text []byte) error {
	if ago, err := time.ParseDuration(string(text)); err == nil {
		m.Time = time.Now().Add(-ago.Abs())
		return nil
	}
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("%q is neither a time of RFC 3339 nor a duration", text)
	}
	m.Time = at
	return nil
}

type cdcRecoverCmd struct {
	Config    cdc.Config   `embed:""`
	Selection cdcSelection `embed:""`
	Apply     bool         `help:"Publish them. Without it nothing is published."`
	Beside    bool         `help:"Also while a publisher streams: old rows may then come behind newer ones of their key."`
	JSON      bool         `help:"Print JSON." name:"json"`
}

// Help is shown by --help.
func (*cdcRecoverCmd) Help() string {
	return `For a slot that was lost, dropped or made anew: what was committed between its end and its beginning is in no log any more, only in the table. The records are those that the stream makes, with the same ids: consumers that recognise ids absorb what they have had. Rows go by their time.`
}

func (c *cdcRecoverCmd) Run(ctx context.Context, log *slog.Logger) error {
	done, err := cdc.Recover(ctx, log, c.Config, cdc.RecoverOptions{Selection: c.Selection.selection(), Apply: c.Apply, Beside: c.Beside})
	if err != nil {
		return err
	}
	return printed(c.JSON, done, done.Print)
}

type cdcReplayCmd struct {
	Config    cdc.Config   `embed:""`
	Selection cdcSelection `embed:""`
	Name      string       `help:"Value of the header \"replay\" that marks the records; the time by default." placeholder:"TEXT"`
	Rate      float64      `help:"Records a second; 0 is no limit." default:"1000"`
	State     string       `help:"File that remembers how far it is: the same command goes on there after an end of any kind." type:"path" placeholder:"FILE"`
	JSON      bool         `help:"Print JSON." name:"json"`
}

// Help is shown by --help.
func (*cdcReplayCmd) Help() string {
	return `The slot is not touched, and the publisher may run meanwhile. Records keep their ids: a consumer that recognises ids does nothing unless it is told to heed the header.`
}

func (c *cdcReplayCmd) Run(ctx context.Context, log *slog.Logger) error {
	o := cdc.ReplayOptions{Selection: c.Selection.selection(), Name: c.Name, Rate: c.Rate, State: c.State}
	var shown time.Time
	o.Progress = func(r cdc.Replayed) {
		if time.Since(shown) > 2*time.Second || r.Done {
			shown = time.Now()
			fmt.Fprintf(os.Stderr, "replay %s: %d of %d\n", r.Name, r.Sent, r.Total)
		}
	}
	done, err := cdc.Replay(ctx, log, c.Config, o)
	if err != nil {
		return err
	}
	return printed(c.JSON, done, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "source %s: %d records published, each with the header %s: %s\n", done.Source, done.Sent, cdc.ReplayHeader, done.Name)
		return err
	})
}

type cdcPruneCmd struct {
	Config         cdc.Config    `embed:""`
	Of             string        `help:"Name of the source; needed when there are several." placeholder:"NAME"`
	OlderThan      time.Duration `help:"Age of the rows; --prune-after by default."`
	TimeColumn     string        `help:"Column that says when a row was written; occurredat, or the event router's timestamp, by default." placeholder:"NAME"`
	DropPartitions bool          `help:"Drop partitions by time whose rows are all that old; needs the table's owner."`
	Pause          time.Duration `help:"Between two batches." default:"100ms"`
	Wait           time.Duration `help:"For the publisher to confirm what is in the table now." default:"1m"`
	JSON           bool          `help:"Print JSON." name:"json"`
}

func (c *cdcPruneCmd) Run(ctx context.Context, log *slog.Logger) error {
	done, err := cdc.Prune(ctx, log, c.Config, cdc.PruneOptions{Source: c.Of, After: c.OlderThan, TimeColumn: c.TimeColumn,
		DropPartitions: c.DropPartitions, Pause: c.Pause, Wait: c.Wait})
	if err != nil {
		return err
	}
	return printed(c.JSON, done, done.Print)
}

// printed prints a result as JSON, or for people.
func printed(asJSON bool, result any, forPeople func(w io.Writer) error) error {
	if !asJSON {
		return forPeople(os.Stdout)
	}
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(result)
}
