package tools

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"chorus/internal/cluster"
)

// Folder names a running chorus up by its data folder.
type Folder struct {
	Data string `help:"Data folder of the chorus up." default:".chorus" type:"path" env:"CHORUS_DATA"`
}

// supervisor returns a client of the cluster's supervisor.
func (f Folder) supervisor(ctx context.Context) (cluster.Client, error) {
	file, err := running(ctx, f.Data)
	return cluster.Client{URL: file.Control}, err
}

// PsCmd lists the processes.
type PsCmd struct {
	Folder
	Output
}

// Help is shown by --help.
func (*PsCmd) Help() string {
	return `The processes of the chorus up of the data folder, with what the supervisor knows of each. Why one is not ready stands in its log.`
}

// Run lists them.
func (c *PsCmd) Run(ctx context.Context, _ *slog.Logger) error {
	supervisor, err := c.supervisor(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lagWithin)
	defer cancel()
	states, err := supervisor.Processes(ctx)
	if err != nil {
		return fmt.Errorf("ps: %w", err)
	}
	return c.processes(states, time.Now())
}

func (o Output) processes(states []cluster.Status, now time.Time) error {
	if o.JSON {
		return o.printJSON(states)
	}
	o.table(func(row func(...string)) {
		row("PROCESS", "PID", "STATE", "SINCE", "RESTARTS", "LAST EXIT", "LOG")
		for _, s := range states {
			pid, exit := "-", "-"
			if s.PID != 0 {
				pid = strconv.Itoa(s.PID)
			}
			if s.LastExit != "" {
				exit = s.LastExit
			}
			row(s.Name, pid, string(s.State), age(now.Sub(s.Since))+" ago", strconv.Itoa(s.Restarts), exit, s.Log)
		}
	})
	return nil
}

// ProcessCmds do something to a process of a running chorus up.
type ProcessCmds struct {
	Kill   KillCmd   `cmd:"" help:"Kill it (SIGKILL); the supervisor starts it again."`
	Freeze FreezeCmd `cmd:"" help:"Freeze it (SIGSTOP): it is there and answers nothing."`
	Thaw   ThawCmd   `cmd:"" help:"Have a frozen one go on."`
	Stop   StopCmd   `cmd:"" help:"Stop it (SIGTERM); it stays down."`
	Start  StartCmd  `cmd:"" help:"Start one that is stopped, or waits for its restart."`
}

// target is the process that a command is about.
type target struct {
	Folder
	Output
	Name string `arg:"" help:"Process as chorus ps has it; the name of a service stands for all its replicas."`
}

// KillCmd kills a process.
type KillCmd struct{ target }

// FreezeCmd freezes one.
type FreezeCmd struct{ target }

// ThawCmd has one go on.
type ThawCmd struct{ target }

// StopCmd stops one.
type StopCmd struct{ target }

// StartCmd starts one.
type StartCmd struct{ target }

// Help is shown by --help.
func (*KillCmd) Help() string {
	return `Ends the process as a crash would, in the midst of whatever it does, and prints its state. The supervisor starts it again after a pause. Nothing is lost by it: chorus verify tells.`
}

// Run kills it.
func (c *KillCmd) Run(ctx context.Context, _ *slog.Logger) error {
	return c.do(ctx, cluster.ActionKill)
}

// Run freezes it.
func (c *FreezeCmd) Run(ctx context.Context, _ *slog.Logger) error {
	return c.do(ctx, cluster.ActionFreeze)
}

// Run has it go on.
func (c *ThawCmd) Run(ctx context.Context, _ *slog.Logger) error {
	return c.do(ctx, cluster.ActionThaw)
}

// Run stops it.
func (c *StopCmd) Run(ctx context.Context, _ *slog.Logger) error {
	return c.do(ctx, cluster.ActionStop)
}

// Run starts it.
func (c *StartCmd) Run(ctx context.Context, _ *slog.Logger) error {
	return c.do(ctx, cluster.ActionStart)
}

// do has the supervisor carry out an action. A stop lasts until the process has ended or its grace is over.
func (t target) do(ctx context.Context, action string) error {
	supervisor, err := t.supervisor(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	all, err := supervisor.Processes(ctx)
	if err != nil {
		return fmt.Errorf("%s %s: %w", action, t.Name, err)
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	if !slices.ContainsFunc(all, func(s cluster.Status) bool { return s.Name == t.Name || s.Group == t.Name }) {
		return fmt.Errorf("there is no process %s; processes are %s", t.Name, strings.Join(names, ", "))
	}
	states, err := supervisor.Do(ctx, t.Name, action)
	if err != nil {
		return fmt.Errorf("%s %s: %w", action, t.Name, err)
	}
	return t.processes(states, time.Now())
}
