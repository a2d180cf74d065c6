package local

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"chorus/internal/cluster"
	"chorus/internal/deploy"
	"chorus/internal/event"
)

// plan is everything that the processes must know of each other.
type plan struct {
	cfg     Config
	ports   map[string]int
	server  deploy.Server
	prepare func(name string) cluster.Prepare
}

// portNames lists what needs a port. A replica has its own; it is named as its process.
func (c Config) portNames() []string {
	names := []string{"postgres", "kafka", "registry", "cdc", "providers", "control"}
	for _, service := range services {
		names = append(names, c.replicaNames(service)...)
	}
	return names
}

func (c Config) replicaNames(service string) []string {
	if c.replicas(service) == 1 {
		return []string{service}
	}
	names := make([]string, c.replicas(service))
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", service, i+1)
	}
	return names
}

func (p plan) addr(name string) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.ports[name]))
}

func (p plan) url(name string) string { return "http://" + p.addr(name) }

// service is the address of a service's first replica: any replica answers.
func (p plan) service(name string) string { return p.url(p.cfg.replicaNames(name)[0]) }

func (p plan) front() string { return "http://127.0.0.1:" + strconv.Itoa(p.cfg.Port) }

func (p plan) kafka() []string {
	if len(p.cfg.Kafka) > 0 {
		return p.cfg.Kafka
	}
	return []string{p.addr("kafka")}
}

// registry is the schema registry; the embedded one has the embedded schemas under fixed ids, so services need not ask it.
func (p plan) registry() string { return p.cfg.Registry }

// addresses are what clients of the cluster find in cluster.json.
func (p plan) addresses() map[string]string {
	a := map[string]string{
		"front": p.front(), "cdc": p.url("cdc"), "providers": p.url("providers"), "kafka": joined(p.kafka()),
		"registry": p.registry(), "control": p.url("control"), "postgres": p.postgres(),
	}
	if a["registry"] == "" && len(p.cfg.Kafka) == 0 {
		a["registry"] = p.url("registry")
	}
	for _, s := range services {
		a[s] = p.service(s)
	}
	return a
}

// postgres is the server's address, for those who can read the folder's secret: whom to log in as and the password are not in it.
func (p plan) postgres() string {
	u, err := url.Parse(p.server.Admin)
	if err != nil {
		return "" // then nothing else has worked either
	}
	u.User, u.Path = nil, ""
	return u.String()
}

// processes lists everything in the order in which people want to read it.
func (p plan) processes() ([]cluster.Process, error) {
	var procs []cluster.Process
	if p.cfg.Postgres == "" {
		args := []string{"postgres", "--dir", p.cfg.dir("postgres"), "--port", strconv.Itoa(p.ports["postgres"])}
		if p.cfg.NoSync {
			args = append(args, "--no-sync")
		}
		procs = append(procs, cluster.Process{Name: "postgres", Args: args, Ready: "tcp://" + p.addr("postgres")})
	}
	if len(p.cfg.Kafka) == 0 {
		procs = append(procs, cluster.Process{
			Name:  "broker",
			Args:  []string{"broker", "--dir", p.cfg.dir("broker"), "--listen", p.addr("kafka"), "--registry", p.addr("registry")},
			Ready: p.url("registry") + "/readyz",
		})
	}
	var base []string
	for _, proc := range procs {
		base = append(base, proc.Name)
	}
	rest, err := p.ours(base)
	if err != nil {
		return nil, err
	}
	return append(procs, rest...), nil
}

// ours are the processes of chorus itself; they start when base is ready and prepared.
func (p plan) ours(base []string) ([]cluster.Process, error) {
	owner, err := p.server.Owner("providers")
	if err != nil {
		return nil, err
	}
	procs := []cluster.Process{{
		Name: "providers", Args: []string{"providers", "run", "--listen", p.addr("providers")}, Env: []string{"CHORUS_POSTGRES=" + owner},
		Ready: p.url("providers") + "/readyz", After: base, Prepare: p.prepare("providers"),
	}}
	cdc, err := p.cdc(base)
	if err != nil {
		return nil, err
	}
	procs = append(procs, cdc)
	for _, name := range services {
		replicas, err := p.participant(name, base)
		if err != nil {
			return nil, err
		}
		procs = append(procs, replicas...)
	}
	console, err := p.console(base)
	if err != nil {
		return nil, err
	}
	return append(procs, console), nil
}

func (p plan) cdc(base []string) (cluster.Process, error) {
	args := []string{"cdc", "run", "--listen", p.addr("cdc")}
	for _, b := range p.kafka() {
		args = append(args, "--brokers", b)
	}
	for _, owner := range event.Owners() {
		// The password stays out of the arguments, which everybody on the machine can read.
		url, err := p.server.Passwordless(string(owner), deploy.CDC)
		if err != nil {
			return cluster.Process{}, err
		}
		args = append(args, "--source", string(owner)+"="+url)
	}
	return cluster.Process{
		Name: "cdc", Args: args, Env: p.env("PGPASSWORD=" + p.server.Password(deploy.CDC)),
		Ready: p.url("cdc") + "/readyz", After: base, Prepare: p.prepare("cdc"),
	}, nil
}

func (p plan) participant(name string, base []string) ([]cluster.Process, error) {
	dsn, err := p.server.URL(name, name)
	if err != nil {
		return nil, err
	}
	env := p.env("CHORUS_POSTGRES="+dsn, "CHORUS_FORMAT="+p.cfg.Format)
	env = append(env, "CHORUS_PROVIDERS="+p.url("providers"), "CHORUS_PROVIDERS_FILE="+p.cfg.ProvidersFile)
	env = append(env, p.patience()...)
	if name == "orders" {
		env = append(env, "CHORUS_INVENTORY_URL="+p.service("inventory"), "CHORUS_SHIPPING_URL="+p.service("shipping"),
			"CHORUS_BILLING_URL="+p.service("billing"), "CHORUS_DEADLINE="+p.cfg.Deadline.String())
	}
	names := p.cfg.replicaNames(name)
	return cluster.Replicate(cluster.Process{
		Name: name, Args: []string{name}, Env: env, After: base, Prepare: p.prepare(name), Check: p.cfg.checkProviders,
	}, len(names), func(i int, proc *cluster.Process) {
		proc.Args = append(proc.Args, "--listen", p.addr(names[i-1]), "--instance", names[i-1])
		proc.Ready = p.url(names[i-1]) + "/readyz"
	}), nil
}

func (p plan) console(base []string) (cluster.Process, error) {
	dsn, err := p.server.URL("tracker", "tracker")
	if err != nil {
		return cluster.Process{}, err
	}
	env := p.env("CHORUS_POSTGRES="+dsn, "CHORUS_CDC="+p.url("cdc"), "CHORUS_PROVIDERS="+p.url("providers"), "CHORUS_CONTROL="+p.url("control"))
	for _, s := range services {
		env = append(env, "CHORUS_"+strings.ToUpper(s)+"="+p.service(s))
	}
	return cluster.Process{
		Name: "console", Args: []string{"console", "--instance", "console", "--listen", "127.0.0.1:" + strconv.Itoa(p.cfg.Port)}, Env: env,
		Ready: p.front() + "/readyz", After: base, Prepare: p.prepare("console"),
	}, nil
}

// patience passes on how patient the calls are.
func (p plan) patience() []string {
	c := p.cfg.Calls
	var env []string
	for name, value := range map[string]any{
		"TRIES": c.Tries, "UNDOS": c.Undos, "ASKS": c.Asks, "ENDS": c.Ends,
		"BACKOFF": c.Backoff, "BACKOFF_CAP": c.BackoffCap, "UNDO_CAP": c.UndoCap, "ASK_AFTER": c.AskAfter, "ASK_CAP": c.AskCap,
		"RETRY_AFTER_CAP": c.RetryAfterCap, "POLL": c.Poll, "SILENCE": c.Silence, "REST": c.Rest,
		"LEASE_MARGIN": c.LeaseMargin, "GRACE": c.Grace, "TIMEOUT": p.cfg.CallTimeout,
	} {
		env = append(env, fmt.Sprintf("CHORUS_CALL_%s=%v", name, value))
	}
	return env
}

// env is what every process of chorus gets.
func (p plan) env(more ...string) []string {
	env := append([]string{"CHORUS_KAFKA=" + joined(p.kafka()), "CHORUS_REGISTRY=" + p.registry()}, more...)
	if p.cfg.Verbose {
		env = append(env, "CHORUS_LOG=debug")
	}
	return env
}
