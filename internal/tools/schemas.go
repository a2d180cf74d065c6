package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"chorus/internal/codec/registry"
	"chorus/internal/event"
)

// SchemasCmds are the commands about schemas.
type SchemasCmds struct {
	List     SchemasListCmd     `cmd:"" default:"withargs" help:"List what the registry holds of the facts' schemas."`
	Check    SchemasCheckCmd    `cmd:"" help:"Compare the present schemas with the registry; change nothing."`
	Register SchemasRegisterCmd `cmd:"" help:"Register what is missing: a deploy step."`
}

// registry returns a client; a registry that is away is waited for until ctx ends.
func (c Cluster) registry(ctx context.Context, log *slog.Logger) (*registry.Client, context.Context, context.CancelFunc, error) {
	all, err := c.addresses(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	if all["registry"] == "" {
		return nil, nil, nil, errors.New("the address of the schema registry is not known: --registry, or --data of a cluster that has it")
	}
	client, err := registry.New(all["registry"], log)
	if err != nil {
		return nil, nil, nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, codecWithin)
	return client, bounded, cancel, nil
}

// SchemasListCmd lists versions.
type SchemasListCmd struct {
	Cluster
	Output
}

// Run lists.
func (c *SchemasListCmd) Run(ctx context.Context, log *slog.Logger) error {
	client, ctx, cancel, err := c.registry(ctx, log)
	if err != nil {
		return err
	}
	defer cancel()
	entries, err := client.List(ctx)
	if err != nil {
		return fmt.Errorf("list schemas: %w", err)
	}
	if c.JSON {
		return c.printJSON(entries)
	}
	c.table(func(row func(...string)) {
		row("SUBJECT", "VERSION", "ID", "")
		for _, e := range entries {
			word := ""
			if e.Present {
				word = "present"
			}
			row(e.Subject, strconv.Itoa(e.Version), strconv.Itoa(e.ID), word)
		}
	})
	return nil
}

// SchemasCheckCmd compares.
type SchemasCheckCmd struct {
	Cluster
	Output
}

// Help is shown by --help.
func (*SchemasCheckCmd) Help() string {
	return `Every version that the registry holds and the present schema must be able to read each other (FULL_TRANSITIVE). Exit code 1 when one cannot, with the field at fault.`
}

// Run compares.
func (c *SchemasCheckCmd) Run(ctx context.Context, log *slog.Logger) error {
	client, ctx, cancel, err := c.registry(ctx, log)
	if err != nil {
		return err
	}
	defer cancel()
	all, err := client.Check(ctx)
	if err != nil {
		return fmt.Errorf("check schemas: %w", err)
	}
	type status struct {
		Subject  string   `json:"subject"`
		ID       int      `json:"id,omitempty"`
		Version  int      `json:"version,omitempty"`
		Problems []string `json:"problems,omitempty"`
	}
	list, bad := make([]status, len(all)), 0
	for i, s := range all {
		list[i] = status{s.Schema.Subject, s.ID, s.Version, s.Problems}
		if len(s.Problems) > 0 {
			bad++
		}
	}
	if c.JSON {
		err = c.printJSON(list)
	} else {
		c.table(func(row func(...string)) {
			row("SUBJECT", "ID", "STATE")
			for _, s := range list {
				state := "registered"
				if s.ID == 0 {
					state = "not registered"
				}
				if len(s.Problems) > 0 {
					state = "INCOMPATIBLE: " + strings.Join(s.Problems, "; ")
				}
				row(s.Subject, strconv.Itoa(s.ID), state)
			}
		})
	}
	if err == nil && bad > 0 {
		err = ExitError{1, fmt.Errorf("%d schemas are not compatible", bad)}
	}
	return err
}

// SchemasRegisterCmd registers.
type SchemasRegisterCmd struct {
	Cluster
	Output
}

// Help is shown by --help.
func (*SchemasRegisterCmd) Help() string {
	return `Run it before the services that write the new schemas. It may be repeated; if one schema is not compatible, none is registered.`
}

// Run registers.
func (c *SchemasRegisterCmd) Run(ctx context.Context, log *slog.Logger) error {
	client, ctx, cancel, err := c.registry(ctx, log)
	if err != nil {
		return err
	}
	defer cancel()
	ids, err := client.Register(ctx)
	if err != nil {
		return fmt.Errorf("register schemas: %w", err)
	}
	if c.JSON {
		return c.printJSON(ids)
	}
	c.table(func(row func(...string)) {
		row("FACT", "ID")
		for _, f := range event.Catalogue() {
			row(string(f.Type()), strconv.Itoa(ids[f.Type()]))
		}
	})
	return nil
}
