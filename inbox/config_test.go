package inbox

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestConfigReportsAllFaults(t *testing.T) {
	t.Parallel()
	_, err := New(slog.New(slog.DiscardHandler), Config{Postgres: "postgres://%", BatchRecords: -1, Drain: time.Minute, RebalanceTimeout: time.Second}, nil)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"no brokers", "no group", "no topics", "no handler", "postgres DSN", "batch records of -1", "drain of 1m0s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not mention %q", err, want)
		}
	}
}
