package participant

import (
	"errors"
	"fmt"
	"time"

	"chorus/internal/codec"
	"chorus/internal/intent"
)

// Config is what every participant needs to run. Postgres must be set.
type Config struct {
	Postgres      string        `help:"URL of the service's database, as its service role." env:"CHORUS_POSTGRES" required:""`
	Kafka         []string      `help:"Kafka brokers, host:port." env:"CHORUS_KAFKA" default:"127.0.0.1:9092"`
	Registry      string        `help:"URL of a Confluent-compatible schema registry. Empty: the embedded schemas' fixed ids." env:"CHORUS_REGISTRY"`
	Format        codec.Format  `help:"How the values of facts are written: avro or json. Both are always read." enum:"avro,json" default:"avro" env:"CHORUS_FORMAT"`
	Listen        string        `help:"Address of the service's HTTP side: health, metrics, inspection." default:"127.0.0.1:0" env:"CHORUS_LISTEN"`
	Providers     string        `help:"Base URL of the outside providers: {base} in the providers file." default:"http://127.0.0.1:9090" env:"CHORUS_PROVIDERS"`
	ProvidersFile string        `help:"Providers and routes (YAML). Empty: the shipped ones, which are the simulated providers. chorus providers check says what is wrong with a file." env:"CHORUS_PROVIDERS_FILE" placeholder:"FILE"`
	Calls         intent.Config `embed:"" prefix:"call-" envprefix:"CHORUS_CALL_"`
	Timeout       time.Duration `help:"Longest exchange with a provider." default:"5s" env:"CHORUS_CALL_TIMEOUT"`
	Batch         int           `help:"Facts in one transaction, at most." default:"500" env:"CHORUS_BATCH"`
	Horizon       time.Duration `help:"How far back the inbox remembers. Topics must not reach further: what is older is set aside as too_old." default:"720h" env:"CHORUS_HORIZON"`
	Instance      string        `help:"Name of this replica, the same at each of its starts: it then takes its partitions up again at once after a crash. Empty: others wait for its session to end." env:"CHORUS_INSTANCE"`
	MaxConns      int32         `help:"Connections to the database beside those of the partitions." default:"8" env:"CHORUS_MAX_CONNS"`
}

// withDefaults fills in what is zero and reports every fault at once.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	if c.Postgres == "" {
		faults = append(faults, errors.New("no URL of the database"))
	}
	if len(c.Kafka) == 0 {
		c.Kafka = []string{"127.0.0.1:9092"}
	}
	if c.Calls == (intent.Config{}) {
		c.Calls = intent.Defaults()
	}
	usual(&c.Format, codec.Avro)
	usual(&c.Listen, "127.0.0.1:0")
	usual(&c.Providers, "http://127.0.0.1:9090")
	usual(&c.Timeout, 5*time.Second)
	usual(&c.Batch, 500)
	usual(&c.Horizon, defaultHorizon)
	usual(&c.MaxConns, 8)
	if c.Timeout < 0 || c.Horizon < 0 {
		faults = append(faults, errors.New("a duration is negative"))
	}
	if c.Batch < 1 || c.Batch > 10_000 {
		faults = append(faults, fmt.Errorf("batch of %d: want 1 to 10000 facts", c.Batch))
	}
	if c.MaxConns < 4 { // two that record calls, one that listens, one for requests
		faults = append(faults, fmt.Errorf("%d connections: want 4 or more", c.MaxConns))
	}
	return c, errors.Join(faults...)
}

func usual[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}
