package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"chorus/cdc"
	"chorus/cdc/quarantine"
)

// quarantineCmds look after the records that Kafka has refused, and those behind them.
type quarantineCmds struct {
	List   quarantineListCmd   `cmd:"" help:"The keys that are held, how many records, since when and why."`
	Show   quarantineShowCmd   `cmd:"" help:"The records of a key that are kept, with headers and value."`
	Retry  quarantineRetryCmd  `cmd:"" help:"Have the publisher publish the records of a key, in order."`
	Skip   quarantineSkipCmd   `cmd:"" help:"Give one record up, for good; those behind it are published when no other is refused."`
	Schema quarantineSchemaCmd `cmd:"" help:"Print the SQL that makes the table, for a role that may not."`
}

// quarantined is where a command finds the rows.
type quarantined struct {
	Config cdc.Config `embed:""`
	Of     string     `help:"Name of the source; needed when there are several." placeholder:"NAME"`
	JSON   bool       `help:"Print JSON." name:"json"`
}

func (q quarantined) on(ctx context.Context, log *slog.Logger, do func(db *pgx.Conn, source string) error) error {
	source, db, err := cdc.OpenQuarantine(ctx, log, q.Config, q.Of)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	return do(db, source)
}

type quarantineListCmd struct {
	quarantined `embed:""`
}

func (c *quarantineListCmd) Run(ctx context.Context, log *slog.Logger) error {
	return c.on(ctx, log, func(db *pgx.Conn, source string) error {
		all, err := quarantine.List(ctx, db, source)
		if errors.Is(err, quarantine.ErrNoTable) {
			err = nil // nothing was ever kept
		}
		if err != nil {
			return err
		}
		return printed(c.JSON, all, func(w io.Writer) error {
			t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "FIRST\tTOPIC\tKEY\tRECORDS\tBYTES\tSINCE\tREASON")
			for _, e := range all {
				reason := e.Reason
				if e.Asked {
					reason += " (about to be published)"
				}
				fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%d\t%s\t%s\n", e.First, e.Topic, legible(e.Key), e.Rows, e.Bytes, e.Since.UTC().Format(time.RFC3339), reason)
			}
			return t.Flush()
		})
	})
}

type quarantineShowCmd struct {
	quarantined `embed:""`
	ID          int64 `arg:"" help:"Number of one of its records, as list prints it."`
}

func (c *quarantineShowCmd) Run(ctx context.Context, log *slog.Logger) error {
	return c.on(ctx, log, func(db *pgx.Conn, source string) error {
		rows, err := quarantine.Show(ctx, db, source, c.ID)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return fmt.Errorf("record %d: %w", c.ID, quarantine.ErrNotKept)
		}
		return printed(c.JSON, rows, func(w io.Writer) error {
			for _, r := range rows {
				fmt.Fprintf(w, "%d  topic %s  key %s  commit %s row %d  %s  kept %s\n", r.ID, r.Topic, legible(r.Key), r.Place.Commit, r.Place.Sequence, r.State, r.Kept.UTC().Format(time.RFC3339))
				if r.Reason != "" {
					fmt.Fprintf(w, "  refused: %s\n", r.Reason)
				}
				for _, h := range r.Headers {
					fmt.Fprintf(w, "  %s: %s\n", h.Key, legible(h.Value))
				}
				fmt.Fprintf(w, "  %d bytes: %s\n", len(r.Value), legible(r.Value))
			}
			return nil
		})
	})
}

// legible is text as it is, the beginning of it, and other bytes as hexadecimal digits.
func legible(b []byte) string {
	const most = 2000
	cut := ""
	if len(b) > most {
		b, cut = b[:most], "…"
	}
	text := strings.ToValidUTF8(string(b), "")
	switch {
	case b == nil:
		return "(null)"
	case !utf8.Valid(b) && len(text)+utf8.UTFMax < len(b), strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) }):
		return hex.EncodeToString(b) + cut
	}
	return text + cut
}

type quarantineRetryCmd struct {
	quarantined `embed:""`
	ID          int64 `arg:"" optional:"" help:"Number of one of its records, as list prints it."`
	All         bool  `help:"All keys."`
}

// Help is shown by --help.
func (*quarantineRetryCmd) Help() string {
	return `The publisher does it, within a second when it runs, so that no later record of the key comes before them. What Kafka still refuses stays, with its new reason.`
}

func (c *quarantineRetryCmd) Run(ctx context.Context, log *slog.Logger) error {
	if (c.ID == 0) != c.All {
		return errors.New("name a record, or --all")
	}
	return c.on(ctx, log, func(db *pgx.Conn, source string) error {
		n, err := quarantine.Retry(ctx, db, source, c.ID)
		if err != nil {
			return err
		}
		return printed(c.JSON, map[string]int64{"asked": n}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "source %s: the publisher is asked for %d records\n", source, n)
			return err
		})
	})
}

type quarantineSkipCmd struct {
	quarantined `embed:""`
	ID          int64  `arg:"" help:"Number of the record, as list and show print it."`
	Reason      string `help:"Why it need not be published; it is kept with the record and the name of the user." required:""`
}

func (c *quarantineSkipCmd) Run(ctx context.Context, log *slog.Logger) error {
	if strings.TrimSpace(c.Reason) == "" {
		return errors.New("say why")
	}
	by := "unknown"
	if u, err := user.Current(); err == nil {
		by = u.Username
	}
	return c.on(ctx, log, func(db *pgx.Conn, source string) error {
		if err := quarantine.Skip(ctx, db, source, c.ID, by, c.Reason); err != nil {
			return err
		}
		return printed(c.JSON, map[string]int64{"skipped": c.ID}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "source %s: record %d is never published\n", source, c.ID)
			return err
		})
	})
}

type quarantineSchemaCmd struct{}

func (*quarantineSchemaCmd) Run() error {
	_, err := fmt.Println(strings.TrimSpace(quarantine.Schema) + "\n-- GRANT " + quarantine.Rights + " ON " + quarantine.Table + " TO the publisher's role")
	return err
}
