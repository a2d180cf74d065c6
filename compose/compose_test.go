package compose

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// load reads the file as compose does, with every profile and nothing set in the environment.
func load(t *testing.T, text string) *types.Project {
	t.Helper()
	p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  ".",
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: []byte(text)}},
		Environment: types.Mapping{},
	}, func(o *loader.Options) { o.Profiles = []string{"*"} })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func shipped(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCompose(t *testing.T) {
	t.Parallel()
	for _, fault := range faults(load(t, shipped(t))) {
		t.Error(fault)
	}
}

// Each rule sees the file that breaks it.
func TestComposeFaultsAreSeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, old, new, fault string }{
		{"name", "  billing:\n    <<: *chorus", "  billing:\n    <<: *chorus\n    container_name: billing", "billing has a fixed name"},
		{"port", "  billing:\n    <<: *chorus", "  billing:\n    <<: *chorus\n    ports: [\"8081:8080\"]", "billing publishes a port"},
		{"open", `"127.0.0.1:${CHORUS_PORT:-8080}:8080"`, `"8080:8080"`, "console is published beyond this machine"},
		{"grace", "  stop_grace_period: 30s\n\nx-healthy", "\nx-healthy", "billing may be killed"},
		{"root", "  read_only: true\n", "", "billing can write"},
		{"health", "    healthcheck: *healthy\n    depends_on: *deployed\n    deploy: *limits\n\n  shipping", "    depends_on: *deployed\n    deploy: *limits\n\n  shipping", "fraud has no health check"},
		{"condition", "kafka: {condition: service_healthy}\n    healthcheck:", "kafka: {condition: service_started}\n    healthcheck:", "registry waits for kafka to be started"},
		{"tag", "postgres:17", "postgres:latest", "postgres:latest"},
		{"OPS-05 id", "CLUSTER_ID: F", "CLUSTER_ID: ", "CLUSTER_ID"},
		{"OPS-05 volume", "kafka:/var/lib/kafka/data", "kafka:/var/lib/kafka", "is in no volume"},
		{"OPS-06", `KAFKA_AUTO_CREATE_TOPICS_ENABLE: "false"`, `KAFKA_AUTO_CREATE_TOPICS_ENABLE: "true"`, "makes topics"},
		{"OPS-06 wait", "  deploy: {condition: service_completed_successfully}\n", "", "billing does not wait for deploy"},
		{"OPS-07", "pg_isready, -h, 127.0.0.1,", "pg_isready,", "socket"},
		{"OPS-09 voters", "1@kafka:9093", "1@broker:9093", `"broker"`},
		{"OPS-09 advertised", "INSIDE://kafka:19092", "INSIDE://kafka1:19092", `"kafka1"`},
		{"OPS-09 bootstrap", "CHORUS_KAFKA: kafka:19092\n  CHORUS_REGISTRY", "CHORUS_KAFKA: kafka0:19092\n  CHORUS_REGISTRY", `"kafka0"`},
		{"OPS-09 argument", "orders=postgres://cdc@postgres/", "orders=postgres://cdc@postgre/", `"postgre"`},
		{"OPS-09 port", "--brokers=kafka:19092", "--brokers=kafka:19093", "19093"},
		{"OPS-09 copies", "KAFKA_DEFAULT_REPLICATION_FACTOR: 1", "KAFKA_DEFAULT_REPLICATION_FACTOR: 3", "3 copies"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(shipped(t), c.old, c.new, 1)
			if text == shipped(t) {
				t.Fatalf("the file has no %q", c.old)
			}
			all := faults(load(t, text))
			if !slices.ContainsFunc(all, func(f string) bool { return strings.Contains(f, c.fault) }) {
				t.Errorf("want a fault with %q, got %q", c.fault, all)
			}
		})
	}
}
