// Package e2e runs scripts against the whole system: real processes of the real binary, on real PostgreSQL and a Kafka-protocol
// broker, that are really killed. A script says in its first lines what it proves and which guarantee (D2) that is; every script
// ends with the invariants over the whole system.
//
//	go test ./e2e                      all scripts, two clusters at a time
//	go test ./e2e -run 'Scripts/kill'  one of them; -v prints what it did
//
//	CHORUS_E2E_KAFKA=1 go test ./e2e   the same scripts on Apache Kafka and a real registry (Java and Maven are needed), and testdata/kafka
//
// A script starts its cluster with `up` and is left with nothing running: see commands for what else it can do.
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// clusters bounds how many run at a time: each is a dozen processes.
const clusters = 2

var (
	bin  string                          // folder of the binary as it is shipped
	free = make(chan struct{}, clusters) // one place for each cluster that runs
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "chorus-e2e-bin-")
		if err == nil {
			defer os.RemoveAll(dir)
			bin = filepath.Join(dir, "bin")
			err = build(bin)
		}
		if err == nil && onKafka {
			var stop func()
			if stop, err = startRegistry(filepath.Join(dir, "registry")); err == nil {
				defer stop()
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// build makes the chorus binary in a folder.
func build(dir string, flags ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	args := append([]string{"build", "-o", filepath.Join(dir, "chorus")}, flags...)
	out, err := exec.CommandContext(ctx, "go", append(args, "chorus/cmd/chorus")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build chorus: %w\n%s", err, out)
	}
	return nil
}

// TestScripts runs the scripts with the binary as it is shipped.
func TestScripts(t *testing.T) { run(t, "testdata", bin) }

// run runs the scripts of a folder with the binary in another. In conditions the scripts may ask for the names given.
func run(t *testing.T, dir, bin string, holds ...string) {
	if testing.Short() {
		t.Skip("starts whole clusters")
	}
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			free <- struct{}{}
			env.Defer(func() { <-free })
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("ROOT", filepath.Dir(here()))
			c, err := newCluster(env, filepath.Join(bin, "chorus"))
			if err != nil {
				return err
			}
			env.Values[key{}] = c
			return nil
		},
		Cmds: commands(),
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "embedded": // the broker is the cluster's own
				return !onKafka, nil
			case "ci": // everything that tests need has to be there
				return os.Getenv("CI") != "", nil
			case "control": // a protection is switched off
				return slices.Contains(holds, cond), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// here is this package's folder.
func here() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return dir
}

type key struct{}

// of returns the script's cluster.
func of(ts *testscript.TestScript) *system { return ts.Value(key{}).(*system) }

// commands are what scripts can do beside testscript's own.
func commands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"up":        cmdUp,        // up [NAME=VALUE ...] [flags of chorus up]: starts the cluster, or starts it again, and waits until it is up
		"down":      cmdDown,      // down [INT|TERM|KILL]: ends the supervisor by a signal and waits until no process is left
		"postgres":  cmdPostgres,  // postgres: starts a server beside the cluster, which then has none
		"kafka":     cmdKafka,     // kafka start NODES|kill NODE|restart|config TOPIC: Apache Kafka, of its own beside the cluster
		"cluster":   cmdCluster,   // cluster kill|stop|start|restart|freeze|thaw|await NAME ...
		"chorus":    cmdChorus,    // [!] chorus ARGS: a command line tool, within two minutes
		"exitcode":  cmdExitCode,  // exitcode N: of the last chorus
		"place":     cmdPlace,     // place VAR ARGS: chorus place, with the order's number put into VAR
		"await":     cmdAwait,     // await ORDER STATUS|attention STEP|overdue|fact TYPE|deadline
		"spread":    cmdSpread,    // spread N: places N orders at once, which go to all partitions, and waits until all are confirmed
		"settle":    cmdSettle,    // settle: waits until every order is at rest
		"requests":  cmdRequests,  // requests ORDER [OPERATION ...]: prints the providers' log of calls
		"sent":      cmdSent,      // sent ORDER PROVIDER N: waits until a provider has been called so often about an order
		"ledger":    cmdLedger,    // ledger ORDER: prints what the providers hold
		"at-once":   cmdAtOnce,    // at-once N MOVE ORDER: the same request so many times at once; prints the answers
		"race":      cmdRace,      // race N: ships and cancels N confirmed orders, both at once
		"by-hand":   cmdByHand,    // by-hand ORDER PROVIDER: takes back at the provider what it did for the order, past the service
		"released":  cmdReleased,  // released: the cluster runs the version that was released before
		"upgrade":   cmdUpgrade,   // upgrade: what starts from now on is of the version under test; the servers are prepared for it
		"outdated":  cmdOutdated,  // [!] outdated: a process of the old version still runs
		"republish": cmdRepublish, // republish [-blind]: every record of every topic is published again, and absorbed
		"rewind":    cmdRewind,    // rewind: every consumer handles every topic again from the beginning, and absorbs it
		"follow":    cmdFollow,    // follow FILE SECTION ...: runs the commands of a document, which print what it says
		"verify":    cmdVerify,    // [!] verify [CHECK ...]: the invariants; with ! those that must be violated
		"poison":    cmdPoison,    // poison TOPIC ORDER TYPE [OWNER]: writes a record that nobody can decode; with OWNER under the id that its fact will have
		"held":      cmdHeld,      // [!] held TEXT: some row of some database holds the text, but for the outboxes
		"letters":   cmdLetters,   // letters SERVICE N: waits until a consumer has so many open dead letters
		"gap":       cmdGap,       // gap ORDER KIND WHO [TEXT]: waits until the trace says that the order waits because of that
		"lag":       cmdLag,       // lag GROUP|all BEHIND MEMBERS: waits until chorus lag shows so many records and members
		"lapse":     cmdLapse,     // lapse ORDER PROVIDER MIN: the calls about the order lie at least MIN apart
		"click":     cmdClick,     // click EXPERIMENT: starts an experiment on the console's page, and waits until it came out as expected
		"interrupt": cmdInterrupt, // interrupt EXPERIMENT TEXT [KILL]: runs an experiment until it says the text, and presses Ctrl-C, or kills it
	}
}
