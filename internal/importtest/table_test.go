package importtest

// row says what packages may import. A pattern that ends in /... means a package and all below it; the longest pattern
// that fits a package counts.
type row struct {
	pattern string
	pure    bool     // no I/O, clock, randomness, goroutines; of the libraries none
	may     []string // packages of this module, as patterns; nil for none
}

// Groups of rows.
var (
	vocabulary = []string{"internal/event", "internal/decision", "internal/choreography"}
	nouns      = []string{
		"services/orders/order", "services/inventory/stock", "services/fraud/screening",
		"services/shipping/shipment", "services/billing/payment",
	}
	anything = []string{"..."}                                               // assembles the program
	machine  = []string{"internal/...", "inbox", "outbox", "cdc", "schemas"} // knows no service
)

func and(groups ...[]string) []string {
	var all []string
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

// rows is the table. A package without a row fails the test.
var rows = []row{
	// The rules, pure.
	{"internal/event", true, nil},
	{"internal/decision", true, []string{"internal/event"}},
	{"internal/choreography", true, []string{"internal/event", "internal/decision"}},
	{"internal/outside", true, []string{"internal/event"}},
	{"services/orders/order", true, []string{"internal/event", "internal/decision"}},
	{"services/inventory/stock", true, []string{"internal/event", "internal/decision", "internal/outside"}},
	{"services/fraud/screening", true, []string{"internal/event", "internal/decision", "internal/outside"}},
	{"services/shipping/shipment", true, []string{"internal/event", "internal/decision", "internal/outside"}},
	{"services/billing/payment", true, []string{"internal/event", "internal/decision", "internal/outside"}},
	{"internal/explore", true, and(vocabulary, nouns, []string{"internal/outside"})},
	{"internal/money", false, nil}, // bojanz/currency: digits and symbols of currencies, no I/O
	{"internal/check", true, and(vocabulary, nouns, []string{"internal/money"})},
	{"cdc/wal", true, nil},
	{"cdc/progress", true, []string{"cdc/wal"}},
	{"cdc/spill", false, nil},
	{"cdc/bookmark", true, []string{"cdc/wal"}},
	{"cdc/quarantine", false, []string{"cdc/wal"}},
	{"cdc/connect", true, nil},
	{"cdc/javaregex", false, nil},
	{"cdc/debezium", false, []string{"cdc/connect", "cdc/javaregex"}},

	// What others may import stands on little.
	{"outbox", false, nil},
	{"inbox", false, []string{"internal/broker", "internal/pg"}},
	{"cdc", false, []string{"cdc/..."}},
	{"schemas", false, nil},
	{"conformance", false, nil},

	// The machinery knows facts and decisions, and no service.
	{"internal/pg", false, nil},
	{"internal/pgserver", false, nil},
	{"internal/broker", false, nil},
	{"internal/codec/...", false, []string{"internal/event", "internal/codec/...", "outbox", "schemas"}},
	{"internal/conf", false, nil},
	{"internal/web", false, nil},
	{"internal/provider", false, and(vocabulary, []string{"internal/outside"})},
	{"internal/provider/check", false, []string{"internal/intent", "internal/outside", "internal/provider"}},
	{"internal/provider/simulated", false, []string{"internal/pg"}},
	{"internal/intent", false, and(vocabulary, []string{"internal/pg", "internal/provider"})},
	{"internal/audit", false, []string{"internal/event"}},
	{"internal/participant", false, machine},
	{"internal/inspect", false, machine},
	{"internal/retail", false, []string{"internal/event"}},

	// These look at orders: of the services they know the nouns alone.
	{"internal/tracker", false, and(machine, nouns)},
	{"internal/check/...", false, and(machine, nouns)},
	{"internal/gap", false, machine},
	{"internal/experiment", false, and(machine, nouns)},
	{"internal/experiment/naive", false, []string{"internal/broker", "internal/cluster", "internal/pg", "outbox"}},
	{"internal/tools", false, and(machine, nouns)},
	{"console", false, and(machine, nouns)},

	// The services.
	{"services/orders", false, and(machine, []string{"services/orders/..."})},
	{"services/inventory", false, and(machine, []string{"services/inventory/..."})},
	{"services/fraud", false, and(machine, []string{"services/fraud/..."})},
	{"services/shipping", false, and(machine, []string{"services/shipping/..."})},
	{"services/billing", false, and(machine, []string{"services/billing/..."})},
	{"services/notifications", false, and(machine, []string{"services/notifications/..."})},

	// What puts everything together, and test kits.
	{"internal/cluster/...", false, anything},
	{"internal/deploy", false, anything},
	{"cmd/chorus", false, anything},
	{"internal/pgtest", false, []string{"internal/pgserver"}},
	{"internal/brokertest", false, []string{"internal/cluster/embedded"}},
	{"internal/providertest", false, nil},
	{"internal/certtest", false, nil},
	{"internal/importtest", false, nil},
	{"internal/docscheck", false, nil},
	{"e2e/...", false, anything},
	{"compose", false, nil},
	{"bench/...", false, anything},
	{"examples/...", false, []string{"outbox", "inbox", "cdc"}},
}

// library says which packages alone may import a library.
type library struct {
	path string // and all below it
	only []string
}

var libraries = []library{
	{"github.com/linkedin/goavro/v2", []string{"internal/codec"}},
	{"github.com/jackc/pglogrepl", []string{"cdc/..."}},
	{"github.com/dlclark/regexp2", []string{"cdc/javaregex"}},
	{"github.com/twmb/franz-go/pkg/kgo", []string{"internal/broker", "cdc/...", "inbox", "internal/brokertest", "internal/cluster/...", "bench/...", "conformance", "internal/experiment/naive"}},
	{"github.com/twmb/franz-go/pkg/kfake", []string{"internal/brokertest", "internal/cluster/..."}},
	{"github.com/fergusstrange/embedded-postgres", []string{"internal/pgserver"}},
	{"github.com/danielgtaylor/huma/v2", []string{"services/orders"}},
	// Besides codec and conf: huma takes the types of its bodies as reflect.Type, and check/live compares two readings of an order.
	{"reflect", []string{"internal/codec", "internal/conf", "services/orders", "internal/check/live"}},
}

// impure are packages of the standard library that a pure package must not import, with what is below them.
var impure = []string{
	"bufio", "context", "crypto/rand", "database", "embed", "io", "log", "math/rand", "net", "os", "path/filepath",
	"plugin", "runtime", "sync", "syscall", "testing", "unsafe",
}

// clocked are functions that read a clock, wait, or print; a pure package may import their packages for the rest.
var clocked = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"},
	"fmt":  {"Print", "Printf", "Println", "Fprint", "Scan", "Scanf", "Scanln"},
}
