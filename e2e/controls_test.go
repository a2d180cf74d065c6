package e2e

import (
	"path/filepath"
	"testing"
)

// TestControls shows that the checks of the other scripts can fail. Each script has one protection in its title: with the binary as it is shipped,
// which has no switch for it, the invariants hold; with one that was built to do without the protection the same course of things breaks them.
func TestControls(t *testing.T) {
	if onKafka {
		t.Skip("proves nothing about the broker")
	}
	broken := filepath.Join(t.TempDir(), "bin")
	if !testing.Short() {
		if err := build(broken, "-tags", "controls"); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("with", func(t *testing.T) { run(t, "testdata/controls", bin) })
	t.Run("without", func(t *testing.T) { run(t, "testdata/controls", broken, "control") })
}
