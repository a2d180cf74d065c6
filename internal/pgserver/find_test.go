package pgserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// installed makes programs that say they are of this version.
func installed(t *testing.T, version string) (bin string) {
	t.Helper()
	bin = t.TempDir()
	for _, name := range []string{"postgres", "initdb"} {
		write(t, filepath.Join(bin, name), fmt.Sprintf("#!/bin/sh\necho '%s (PostgreSQL) %s'\n", name, version), 0o755)
	}
	return bin
}

func TestFindPrefersPathUnlessTooOld(t *testing.T) {
	newer, old, broken := installed(t, "18.1 (Debian 18.1-1)"), installed(t, "14.9"), installed(t, "15.1")
	if err := os.Remove(filepath.Join(broken, "initdb")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", newer+":"+os.Getenv("PATH"))
	if bin, err := Find(within(t), 0); err != nil || bin != newer {
		t.Errorf("Find = %s, %v; want PATH's %s", bin, err, newer)
	}
	for name, unfit := range map[string]string{"too old": old, "without initdb": broken} {
		t.Setenv("PATH", unfit+":"+os.Getenv("PATH"))
		if bin, _ := Find(within(t), 0); bin == unfit {
			t.Errorf("%s: found all the same", name)
		}
	}
	_, err := Find(within(t), 99)
	if !errors.Is(err, ErrNoBinaries) || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("Find of version 99: %v; want %q", err, ErrNoBinaries)
	}
}

// A cluster can be run by the version that made it alone; anything else is said
// before a server is started on it.
func TestClusterOfAnotherVersion(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir(), Bin: installed(t, "16.4")}
	if err := os.Mkdir(cfg.data(), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(cfg.data(), "PG_VERSION"), "15\n", 0o600)
	if _, err := Binaries(within(t), cfg); err == nil || !strings.Contains(err.Error(), "PostgreSQL 15") {
		t.Errorf("a cluster of 15 with programs of 16: %v", err)
	}
	cfg.Bin = ""
	write(t, filepath.Join(cfg.data(), "PG_VERSION"), "99\n", 0o600)
	if _, err := Binaries(within(t), cfg); !errors.Is(err, ErrNoBinaries) {
		t.Errorf("a cluster of a version that is not here: %v", err)
	}
}
