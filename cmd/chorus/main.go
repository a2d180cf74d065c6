// Command chorus is every process of the system and every tool for it: see `chorus --help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"chorus/internal/cluster"
	"chorus/internal/tools"
	"chorus/internal/web"
)

func main() {
	if err := cluster.DieWithParent(); err != nil {
		fmt.Fprintln(os.Stderr, "chorus:", err)
		os.Exit(1)
	}
	var c commands
	k := kong.Must(&c,
		kong.Name("chorus"),
		kong.Description("Services that carry an order through Kafka: placed, then paid and shipped, or back to nothing. The help of each flag names its variable.\n\nExit codes: 0 done; 1 an error, a violation or a wrong command line; 2 place --wait when the order was rejected, failed or cancelled."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.DefaultEnvars("CHORUS"),
		kong.ExplicitGroups([]kong.Group{
			{Key: "start", Title: "Start here:"},
			{Key: "order", Title: "Orders:"},
			{Key: "look", Title: "Look and repair:"},
			{Key: "process", Title: "Processes (chorus up starts them all):"},
		}),
	)
	kctx, err := k.Parse(os.Args[1:])
	if err != nil {
		misused(err)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: c.Log}))
	kctx.BindTo(ctx, (*context.Context)(nil))
	if c.Pprof {
		go func() {
			if err := web.Profile(ctx, log); err != nil {
				log.Warn("profiles are not served", "err", err)
			}
		}()
	}
	err = kctx.Run(log)
	var exit tools.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		if exit.Error() != "" {
			fmt.Fprintln(os.Stderr, "chorus:", exit.Error())
		}
		os.Exit(exit.Code)
	default:
		fmt.Fprintln(os.Stderr, "chorus:", err)
		os.Exit(1)
	}
}

// misused ends the program after a wrong command line: one line says what is wrong, one where the help is.
func misused(err error) {
	command := "chorus"
	var wrong *kong.ParseError
	if errors.As(err, &wrong) {
		if node := wrong.Context.Selected(); node != nil {
			command = node.FullPath()
		}
	}
	fmt.Fprintf(os.Stderr, "chorus: %v\nRun %s --help\n", err, command)
	os.Exit(1)
}
