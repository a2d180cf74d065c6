package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"chorus/internal/check"
	"chorus/internal/check/live"
	"chorus/internal/cluster"
	"chorus/internal/experiment"
	"chorus/internal/experiment/naive"
	"chorus/internal/pgserver"
)

// ExperimentCmds break a running cluster on purpose.
type ExperimentCmds struct {
	List ExperimentListCmd `cmd:"" help:"What there is to try."`
	Run  ExperimentRunCmd  `cmd:"" help:"Break something, and see what becomes of it."`
	Shop naive.ShopCmd     `cmd:"" hidden:"" help:"The shop of the experiments naive-gap and naive-rollback."`
}

// ExperimentListCmd lists the experiments.
type ExperimentListCmd struct {
	Output
	About bool `help:"Say what happens elsewhere, and what to see here."`
}

// Run lists them.
func (c *ExperimentListCmd) Run(context.Context, *slog.Logger) error {
	all := experiment.All()
	if c.JSON {
		return c.printJSON(all)
	}
	if c.About {
		for _, e := range all {
			c.printf("%s %s: %s\n    %s\n", e.Seed, e.Name, e.Title, e.About)
		}
		return nil
	}
	c.table(func(row func(...string)) {
		row("NO", "NAME", "WHAT")
		for _, e := range all {
			row(e.Seed, e.Name, e.Title)
		}
	})
	return nil
}

// ExperimentRunCmd runs one of them, or all.
type ExperimentRunCmd struct {
	Cluster
	Output
	Postgres string   `help:"For naive-gap and naive-rollback on a PostgreSQL of your own: URL of its superuser." placeholder:"URL" env:"CHORUS_POSTGRES_ADMIN"`
	Names    []string `arg:"" name:"name" help:"Names or numbers from chorus experiment list; all for all of them."`
}

// Help is shown by --help.
func (*ExperimentRunCmd) Help() string {
	return `Works on a running chorus up: it places orders, has the simulated providers misbehave, kills and freezes processes through the supervisor, and tells each step as it does it. At the end it compares what was expected with what came of it, and checks every invariant as chorus verify does.

  chorus experiment list
  chorus experiment run billing-down          (or by its number: E4)
  chorus experiment run naive-gap             (how facts get lost, and how they do not)
  chorus experiment run all

One at a time, and on a cluster where nobody else places orders: they change how the providers behave, for all orders, and some count the calls that fail. Whatever an experiment breaks it mends, also on Ctrl-C: rules of the providers are set back to what they were, frozen processes thawed, stopped ones started. After a kill -9 of this command: chorus providers clear, chorus process thaw NAME, and for naive-gap and naive-rollback run one of them again, which removes the database, replication slot and topics of the one before.

Exit code: 0 everything came out as expected and verify is content, 1 anything else.`
}

// Run runs them one after the other.
func (c *ExperimentRunCmd) Run(ctx context.Context, log *slog.Logger) error {
	chosen, err := c.chosen()
	if err != nil {
		return err
	}
	lab, err := c.lab(ctx, log)
	if err != nil {
		return err
	}
	tell := func(line string) { c.printf("%s\n", clean(line)) }
	if c.JSON {
		tell = func(line string) { c.remark("%s", clean(line)) }
	}
	var results []experiment.Result
	var failed []string
	for i, e := range chosen {
		if i > 0 {
			tell("")
		}
		r, err := experiment.Run(ctx, lab, e, tell)
		if ctx.Err() != nil {
			return ExitError{Code: 1, Err: errors.New("interrupted")}
		}
		if err != nil && len(chosen) == 1 {
			return err
		}
		if err != nil {
			tell("  " + err.Error())
			r.Name = e.Name
		}
		results = append(results, r)
		if !r.OK {
			failed = append(failed, e.Name)
		}
	}
	if c.JSON {
		if err := c.printJSON(results); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return ExitError{Code: 1, Err: fmt.Errorf("not as expected: %s", strings.Join(failed, ", "))}
	}
	return nil
}

func (c *ExperimentRunCmd) chosen() (chosen []experiment.Experiment, err error) {
	if len(c.Names) == 1 && c.Names[0] == "all" {
		return experiment.All(), nil
	}
	for _, name := range c.Names {
		e, err := experiment.Find(name)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, e)
	}
	return chosen, nil
}

// lab is the cluster that the flags or the folder name.
func (c *ExperimentRunCmd) lab(ctx context.Context, log *slog.Logger) (experiment.Lab, error) {
	var lab experiment.Lab
	file, err := running(ctx, c.Data)
	if err != nil {
		return lab, fmt.Errorf("%w: experiments work on a running chorus up", err)
	}
	all, err := c.addresses(ctx)
	if err != nil {
		return lab, err
	}
	front, err := all.url("front")
	if err != nil {
		return lab, err
	}
	lab.Front.Base, lab.Front.HTTP = front, newClient(front).http
	if lab.Notifications, err = all.participant("notifications"); err != nil {
		return lab, err
	}
	if lab.Providers, err = all.providers(); err != nil {
		return lab, err
	}
	lab.Supervisor = cluster.Client{URL: file.Control}
	if lab.Bench, err = c.bench(all); err != nil {
		return lab, err
	}
	verify := VerifyCmd{Cluster: c.Cluster}
	src, err := verify.sources(ctx, log)
	if err != nil {
		return lab, err
	}
	lab.Verify = func(ctx context.Context) (*check.Report, error) { return live.Verify(ctx, log, src, live.Defaults()) }
	return lab, nil
}

// bench is where the naive shop can be shown: on the database server of the data folder, or on one whose superuser was named. Nil where there is neither.
func (c *ExperimentRunCmd) bench(all addresses) (func(context.Context) (*naive.Bench, error), error) {
	cfg := naive.Config{Admin: c.Postgres}
	var err error
	if cfg.Admin == "" {
		cfg.Admin, err = superuser(c.Data, all["postgres"])
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		cfg.Kafka, err = all.brokers()
	}
	if err == nil {
		cfg.Executable, err = os.Executable()
	}
	if err != nil {
		return nil, fmt.Errorf("find the database server: %w", err)
	}
	return func(ctx context.Context) (*naive.Bench, error) { return naive.Open(ctx, cfg) }, nil
}

// superuser is how whoever may read the data folder logs in to the private server in it. The error is fs.ErrNotExist when there is none.
func superuser(data, address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("read the database server's address: %w", err)
	}
	port, err := strconv.Atoi(u.Query().Get("port"))
	if err != nil {
		return "", fmt.Errorf("the data folder has no server of its own: %w", fs.ErrNotExist)
	}
	return pgserver.Config{Dir: filepath.Join(data, "postgres"), Port: port}.DSN()
}
