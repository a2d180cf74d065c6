package check

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chorus/internal/intent"
	"chorus/internal/provider"
)

func command(file string) *Cmd {
	return &Cmd{File: file, Deadline: 15 * time.Minute, Timeout: 5 * time.Second, Calls: intent.Defaults()}
}

func TestShippedFileIsOK(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := command("").check(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"payment      -> pay-standard, pay-highvalue", "shipment   may take", "OK: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

func TestBudgetBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	c := command("")
	c.Deadline = time.Minute
	if err := c.check(&strings.Builder{}); err == nil || !strings.Contains(err.Error(), "longer than the deadline") {
		t.Errorf("%v", err)
	}
	// A provider's own patience counts.
	patient := strings.Replace(string(provider.Shipped()), "  pay-highvalue:\n", "  pay-highvalue:\n    retry: {tries: 100}\n", 1)
	path := filepath.Join(t.TempDir(), "providers.yaml")
	if err := os.WriteFile(path, []byte(patient), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := command(path).check(&strings.Builder{}); err == nil || !strings.Contains(err.Error(), "longer than the deadline") {
		t.Errorf("%v", err)
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("lt, value: 50", "below, value: 50", "revert: {method: POST, url: \"{+base}/warehouse", "rewert: {method: POST, url: \"{+base}/warehouse").Replace(string(provider.Shipped()))
	path := filepath.Join(t.TempDir(), "providers.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	err := command(path).check(&strings.Builder{})
	var faults provider.Faults
	if !errors.As(err, &faults) || len(faults) < 3 {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{`unknown "below"`, `unknown key "rewert"`, "provider warehouse has an effect and no revert"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}
