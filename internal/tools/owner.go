package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"chorus/internal/audit"
	"chorus/internal/cluster"
	"chorus/internal/deploy"
	"chorus/internal/web"
)

// Owner tells how to log in to the databases as their owners: as chorus deploy is told, or as the folder of a running chorus up has it.
type Owner struct {
	Data     string `help:"Data folder of the chorus up whose databases are meant." default:".chorus" type:"path" env:"CHORUS_DATA"`
	Postgres string `help:"URL of the PostgreSQL server, where there is no chorus up. Its user and database do not matter." env:"CHORUS_POSTGRES" placeholder:"URL"`
	Password string `help:"Password of the owners' roles, as chorus deploy was told." env:"CHORUS_ROLE_PASSWORD" placeholder:"TEXT"`
}

func (o Owner) server(ctx context.Context) (deploy.Server, error) {
	if o.Postgres != "" {
		if o.Password == "" {
			return deploy.Server{}, errors.New("the password of the roles is not known: --password, CHORUS_ROLE_PASSWORD")
		}
		return deploy.Server{Admin: o.Postgres, Password: func(string) string { return o.Password }}, nil
	}
	file, err := running(ctx, o.Data)
	if err != nil {
		return deploy.Server{}, fmt.Errorf("%w: --data, or --postgres and --password", err)
	}
	if file.Addresses["postgres"] == "" {
		return deploy.Server{}, fmt.Errorf("the cluster in %s has no address of PostgreSQL: --postgres and --password", o.Data)
	}
	password, err := cluster.Passwords(o.Data)
	if err != nil {
		return deploy.Server{}, err
	}
	return deploy.Server{Admin: file.Addresses["postgres"], Password: password}, nil
}

// EraseCmd erases what is personal about an order.
type EraseCmd struct {
	Owner
	Output
	Order  Number `arg:"" help:"Number of the order. It must have ended."`
	Reason string `help:"Why; it is kept in the audit." required:"" placeholder:"TEXT"`
}

// Help is shown by --help.
func (*EraseCmd) Help() string {
	return `Deletes, in every database, the customer of an order that has ended, what was sent to providers, the text of their answers, and the bytes of its dead letters. The ledger stays: its facts, verdicts, calls and attempts with their times and ends, and the sums; verify is as content as before. It works as the owner of each database, since a service cannot change what it has recorded.

What has left the databases is not reached: topics keep their records for their retention, an outbox its rows until cdc prunes it (15 minutes), providers what they were told. A view that is built anew from the topics has the customer again as far as they reach.

An order that has not ended, or of which a call or a dead letter is open, is refused. Killed halfway, it is run again.`
}

// Run erases.
func (c *EraseCmd) Run(ctx context.Context, _ *slog.Logger) error {
	if strings.TrimSpace(c.Reason) == "" {
		return errors.New("erase: --reason is empty")
	}
	server, err := c.server(ctx)
	if err != nil {
		return err
	}
	done, err := server.Erase(ctx, c.Order.OrderNo, audit.User(), c.Reason)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.printJSON(done)
	}
	c.printf("order %s: %d calls, %d states, %d rows, %d facts of the view and %d dead letters hold nothing personal any more\n",
		c.Order, done.Calls, done.States, done.Orders, done.Facts, done.Letters)
	return nil
}

// PruneCmd deletes old records of calls.
type PruneCmd struct {
	Owner
	Keep   time.Duration `help:"How long the records of ended calls are kept." default:"2160h" env:"CHORUS_KEEP_CALLS"`
	Every  time.Duration `help:"Do it again and again, so often; 0 for once." default:"0" env:"CHORUS_PRUNE_EVERY"`
	Listen string        `help:"With --every: address at which it says how the last round went." default:"127.0.0.1:0" env:"CHORUS_LISTEN"`
}

// Help is shown by --help.
func (*PruneCmd) Help() string {
	return `Deletes the records of calls that ended long ago, with every attempt, as the owner of each database: a service can only add to them. Stuck calls stay. It goes in batches of 500 with rests between them and passes over what is locked, so it may run while orders flow, and be killed.

chorus up does it by itself, daily. Inboxes and closed dead letters are pruned by the services, hourly, once a fact is older than the inbox's horizon.`
}

// Run prunes.
func (c *PruneCmd) Run(ctx context.Context, log *slog.Logger) error {
	server, err := c.server(ctx)
	if err != nil {
		return err
	}
	if c.Every < 0 {
		return fmt.Errorf("--every %s: want a duration above 0, or 0 for once", c.Every)
	}
	if c.Every == 0 || c.Keep <= 0 {
		return server.Prune(ctx, log, c.Keep)
	}
	return c.serve(ctx, log, server)
}

// serve prunes until ctx ends, and says meanwhile how the last round went.
func (c *PruneCmd) serve(ctx context.Context, log *slog.Logger, server deploy.Server) error {
	listener, err := web.Listen(ctx, c.Listen)
	if err != nil {
		return err
	}
	var last atomic.Pointer[error]
	mux := http.NewServeMux()
	web.Health(mux, func(context.Context) error {
		if err := last.Load(); err != nil {
			return *err
		}
		return nil // the first round is under way
	})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return web.Serve(ctx, log, listener, mux) })
	group.Go(func() error {
		server.PruneEvery(ctx, log, c.Keep, c.Every, func(err error) { last.Store(&err) })
		return nil
	})
	return group.Wait()
}
