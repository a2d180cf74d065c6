package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"chorus/internal/cluster"
	"chorus/internal/deploy"
)

// released is the subject of the commit that a rolling upgrade comes from: its id is another one when the history was written anew.
const released = "make, ci: the README's commands, on a clean checkout"

// cmdReleased has the cluster run the released version, from a file in a folder of the cluster's own.
func cmdReleased(ts *testscript.TestScript, neg bool, args []string) {
	c := of(ts)
	if neg || len(args) > 0 || c.cmd != nil {
		ts.Fatalf("usage: released, before up")
	}
	old, err := buildReleased()
	ts.Check(err)
	c.bin = filepath.Join(c.dir, "chorus")
	ts.Check(replaceFile(c.bin, old))
}

// buildReleased builds the released version once, from the history.
var buildReleased = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir := filepath.Join(filepath.Dir(bin), "released")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// The history is in a clone of one's own, unless it is a shallow one.
	script := `id=$(git log --format=%H --fixed-strings --grep="$2" | tail -1)
		[ -n "$id" ] || { echo "the history does not have it: a shallow clone? git fetch --unshallow"; exit 1; }
		git archive "$id" | tar -x -C "$1" && cd "$1" && go build -o chorus ./cmd/chorus`
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", script, "bash", dir, released)
	cmd.Dir = filepath.Dir(here())
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the version %q: %w\n%s", released, err, out)
	}
	return filepath.Join(dir, "chorus"), nil
})

// cmdUpgrade puts the version under test in the place of the one that runs, and prepares the servers for it. A process that starts from
// now on is of the new version; those that run are left alone.
func cmdUpgrade(ts *testscript.TestScript, neg bool, args []string) {
	c := of(ts)
	if neg || len(args) > 0 || c.postgres == nil {
		ts.Fatalf("usage: upgrade, with a PostgreSQL beside the cluster")
	}
	ts.Check(replaceFile(c.bin, filepath.Join(bin, "chorus")))
	password, err := cluster.Passwords(c.data)
	ts.Check(err)
	kafka, err := c.address("kafka")
	ts.Check(err)
	plan := deploy.Plan{
		Server: deploy.Server{Admin: c.postgres.TCP(), Password: password},
		Kafka:  strings.Split(kafka, ","), Partitions: 3,
	}
	if onKafka {
		plan.Registry = registry.URL
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ts.Check(plan.Run(ctx, slog.New(slog.DiscardHandler)))
}

// replaceFile puts a copy of a program in the place of another, which may be running.
func replaceFile(path, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	fresh := path + ".new"
	out, err := os.OpenFile(fresh, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// cmdOutdated fails unless some process (neg: none) still runs the version that was replaced.
func cmdOutdated(ts *testscript.TestScript, neg bool, args []string) {
	c := of(ts)
	if len(args) != 0 {
		ts.Fatalf("usage: [!] outdated")
	}
	var old []string
	exes, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range exes {
		exe, _ := os.Readlink(link)
		if exe != c.bin+" (deleted)" {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		words := bytes.Split(cmdline, []byte{0})
		if len(words) > 1 && !slices.Contains([]string{"up", "broker"}, string(words[1])) { // what the cluster stands on
			old = append(old, string(words[1]))
		}
	}
	if neg == (len(old) > 0) {
		ts.Fatalf("of the old version: %v", old)
	}
}
