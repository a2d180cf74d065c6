package main

import (
	"context"
	"log/slog"
	"os"

	"chorus/console"
	"chorus/internal/cluster/embedded"
	"chorus/internal/cluster/local"
	"chorus/internal/deploy"
	"chorus/internal/pgserver"
	"chorus/internal/provider/check"
	"chorus/internal/provider/simulated"
	"chorus/internal/tools"
	"chorus/schemas"
	"chorus/services/billing"
	"chorus/services/fraud"
	"chorus/services/inventory"
	"chorus/services/notifications"
	"chorus/services/orders"
	"chorus/services/shipping"
)

// commands is the table of subcommands.
type commands struct {
	Log   slog.Level `help:"Lowest level of the log: debug, info, warn or error." default:"info"`
	Pprof bool       `help:"Serve Go's profiles on a loopback port that the log names." hidden:""`

	Up     upCmd     `cmd:"" group:"start" help:"Run the whole cluster on this machine: no Docker, no Kafka, no PostgreSQL needed."`
	Deploy deployCmd `cmd:"" group:"start" help:"Prepare servers of your own: databases, roles, topics, schemas."`
	Seed   seedCmd   `cmd:"" group:"start" help:"Fill an empty shop with a sample catalogue and stock; chorus up does it by itself."`

	Place   tools.PlaceCmd   `cmd:"" group:"order" help:"Place an order; with --wait follow it to its end."`
	Cancel  tools.CancelCmd  `cmd:"" group:"order" help:"Cancel an order that is not shipped."`
	Ship    tools.ShipCmd    `cmd:"" group:"order" help:"Ship a confirmed order: the point of no return."`
	Deliver tools.DeliverCmd `cmd:"" group:"order" help:"Say that a shipped order has arrived."`
	Resolve tools.ResolveCmd `cmd:"" group:"order" help:"End a stuck step, with evidence that nothing is held or charged any more."`
	Retry   tools.RetryCmd   `cmd:"" group:"order" help:"Have a stuck step settled by its provider: a call forward is cancelled by its key, an undo is sent again."`

	Load tools.LoadCmd `cmd:"" group:"order" help:"Place many orders, or replay a day of real ones."`

	Trace       tools.TraceCmd        `cmd:"" group:"look" help:"Where is an order, what does it wait for, and who owns that?"`
	Verify      tools.VerifyCmd       `cmd:"" group:"look" help:"Check every invariant of the running system: nothing lost, nothing done twice."`
	Lag         tools.LagCmd          `cmd:"" group:"look" help:"How far consumers, calls and the publisher are behind."`
	Tail        tools.TailCmd         `cmd:"" group:"look" help:"Print the facts of a topic."`
	DeadLetters tools.DeadLettersCmds `cmd:"" group:"look" help:"Facts that were set aside: list, show, preview, redrive, discard."`
	Audit       tools.AuditCmd        `cmd:"" group:"look" help:"What people did: who, when, why, what was so before and after."`
	Erase       tools.EraseCmd        `cmd:"" group:"look" help:"Erase what is personal about an order that has ended; the ledger stays."`
	Prune       tools.PruneCmd        `cmd:"" group:"look" help:"Delete the records of calls that ended long ago."`
	Consumer    tools.ConsumerCmds    `cmd:"" group:"look" help:"Have a consumer read a topic again."`
	Map         tools.MapCmd          `cmd:"" group:"look" help:"Who reacts to what: the choreography as text or as a diagram."`
	Schemas     tools.SchemasCmds     `cmd:"" group:"look" help:"Register, check and list the schemas of the facts."`
	Ps          tools.PsCmd           `cmd:"" group:"look" help:"The processes of the running cluster: pid, state, restarts, log."`
	Kill        tools.KillCmd         `cmd:"" group:"look" help:"Kill a process of the running cluster; it is started again."`
	Process     tools.ProcessCmds     `cmd:"" group:"look" help:"Kill, freeze, thaw, stop or start a process of the running cluster."`
	Experiment  tools.ExperimentCmds  `cmd:"" group:"look" help:"Break the running cluster on purpose, and see what becomes of it."`
	Healthcheck tools.HealthCmd       `cmd:"" group:"look" help:"Ask a process whether it is ready; for containers."`

	Orders        ordersCmd        `cmd:"" group:"process" help:"Takes orders and decides how they end."`
	Inventory     inventoryCmd     `cmd:"" group:"process" help:"Holds stock."`
	Fraud         fraudCmd         `cmd:"" group:"process" help:"Screens orders."`
	Shipping      shippingCmd      `cmd:"" group:"process" help:"Books and cancels shipments."`
	Billing       billingCmd       `cmd:"" group:"process" help:"Charges and refunds."`
	Notifications notificationsCmd `cmd:"" group:"process" help:"Tells customers how their order stands."`
	Console       consoleCmd       `cmd:"" group:"process" help:"Tracker and web console: the front address."`
	CDC           cdcCmds          `cmd:"" name:"cdc" group:"process" help:"Publishes outbox tables to Kafka by logical replication; check, recover, replay and prune look after it."`
	Providers     providersCmds    `cmd:"" group:"process" help:"The simulated outside world, and how it behaves."`
	Broker        brokerCmd        `cmd:"" group:"process" help:"Embedded Kafka-protocol broker and schema registry."`
	Postgres      postgresCmd      `cmd:"" group:"process" help:"A private PostgreSQL server in a folder."`
}

type upCmd struct {
	Config local.Config `embed:""`
}

func (c *upCmd) Run(ctx context.Context) error {
	return local.Run(ctx, os.Stdout, c.Config)
}

type deployCmd struct {
	Config deploy.Config `embed:""`
}

// Help is shown by --help.
func (*deployCmd) Help() string {
	return `The step before the processes of a new version start; chorus up does it by itself. It may be repeated, and while the system runs.`
}

func (c *deployCmd) Run(ctx context.Context, log *slog.Logger) error {
	return deploy.Run(ctx, log, c.Config)
}

type seedCmd struct {
	OrdersURL    string `help:"Orders service." required:"" placeholder:"URL"`
	InventoryURL string `help:"Inventory service." required:"" placeholder:"URL"`
}

func (c *seedCmd) Run(ctx context.Context, _ *slog.Logger) error {
	return deploy.Seed(ctx, c.OrdersURL, c.InventoryURL)
}

type ordersCmd struct {
	Config orders.Config `embed:""`
}

func (c *ordersCmd) Run(ctx context.Context, log *slog.Logger) error {
	return orders.Run(ctx, log, c.Config)
}

type inventoryCmd struct {
	Config inventory.Config `embed:""`
}

func (c *inventoryCmd) Run(ctx context.Context, log *slog.Logger) error {
	return inventory.Run(ctx, log, c.Config)
}

type fraudCmd struct {
	Config fraud.Config `embed:""`
}

func (c *fraudCmd) Run(ctx context.Context, log *slog.Logger) error {
	return fraud.Run(ctx, log, c.Config)
}

type shippingCmd struct {
	Config shipping.Config `embed:""`
}

func (c *shippingCmd) Run(ctx context.Context, log *slog.Logger) error {
	return shipping.Run(ctx, log, c.Config)
}

type billingCmd struct {
	Config billing.Config `embed:""`
}

func (c *billingCmd) Run(ctx context.Context, log *slog.Logger) error {
	return billing.Run(ctx, log, c.Config)
}

type notificationsCmd struct {
	Config notifications.Config `embed:""`
}

func (c *notificationsCmd) Run(ctx context.Context, log *slog.Logger) error {
	return notifications.Run(ctx, log, c.Config)
}

type consoleCmd struct {
	Config console.Config `embed:""`
}

func (c *consoleCmd) Run(ctx context.Context, log *slog.Logger) error {
	return console.Run(ctx, log, c.Config)
}

type providersCmds struct {
	Run   providersCmd            `cmd:"" default:"withargs" help:"Run the providers."`
	Check check.Cmd               `cmd:"" help:"Say everything that is wrong with a providers file, and whether orders have time for it."`
	Set   tools.ProvidersSetCmd   `cmd:"" help:"Make a provider fail, decline, dawdle or lie."`
	Show  tools.ProvidersShowCmd  `cmd:"" help:"Show how the providers behave."`
	Clear tools.ProvidersClearCmd `cmd:"" help:"Make the providers behave again."`
}

type providersCmd struct {
	Config simulated.Config `embed:""`
}

func (c *providersCmd) Run(ctx context.Context, log *slog.Logger) error {
	return simulated.Run(ctx, log, c.Config)
}

type brokerCmd struct {
	Dir      string `help:"Data folder." default:".chorus/broker" type:"path"`
	Listen   string `help:"Address of the Kafka protocol." default:"127.0.0.1:9092"`
	Registry string `help:"Address of the schema registry and of health." default:"127.0.0.1:8081"`
}

func (c *brokerCmd) Run(ctx context.Context, log *slog.Logger) error {
	cfg := embedded.Config{Dir: c.Dir, Listen: c.Listen, Registry: c.Registry}
	for _, s := range schemas.Released() {
		cfg.Schemas = append(cfg.Schemas, embedded.Schema{Subject: s.Subject, ID: s.ID, Version: s.Version, Text: s.Text})
	}
	return embedded.RunBroker(ctx, log, cfg)
}

type postgresCmd struct {
	Dir    string `help:"Data folder." required:"" type:"path"`
	Port   int    `help:"TCP port on 127.0.0.1." default:"5432"`
	NoSync bool   `help:"Do not wait for the disk."`
}

func (c *postgresCmd) Run(ctx context.Context, log *slog.Logger) error {
	return pgserver.Run(ctx, log, pgserver.Config{Dir: c.Dir, Port: c.Port, NoSync: c.NoSync, Settings: map[string]string{
		// Ten bytes a transaction, for recover and verify: in which order were rows committed?
		"track_commit_timestamp": "on",
	}})
}
