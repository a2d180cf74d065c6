// Package brokertest gives a test a Kafka-protocol broker of its own: the embedded broker of the cluster, with the same settings, in this process,
// on a free port, with a data folder that is deleted after the test.
//
// Stop and Crash take it away, Restart brings it back at the same address with what a broker would still have on disk. Between them, clients see a refused
// connection, as with any broker that is down.
package brokertest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chorus/internal/cluster/embedded"
)

// patience bounds each wait of this package, on a machine that is busy with other tests.
const patience = 30 * time.Second

// Broker is one test's broker. Its methods are for the goroutine of the test, apart from Addr, Cluster and ControlKey.
type Broker struct {
	t    testing.TB
	dir  string
	addr string
	b    *embedded.Broker // nil while it is down
}

// Start runs a broker with these topics (name to number of partitions) until the test ends. Unknown topics are not created on use.
func Start(t testing.TB, topics map[string]int32) *Broker {
	t.Helper()
	b := &Broker{t: t, dir: t.TempDir(), addr: "127.0.0.1:0"}
	b.Restart()
	b.addr = b.b.Addr()
	t.Cleanup(func() {
		if b.b != nil {
			b.Stop()
		}
	})
	for topic, partitions := range topics {
		b.CreateTopic(topic, partitions)
	}
	return b
}

// Addr is the broker's host:port. It stays the same over restarts.
func (b *Broker) Addr() string { return b.addr }

// Dir is the broker's data folder.
func (b *Broker) Dir() string { return b.dir }

// CreateTopic adds a topic to the running broker.
func (b *Broker) CreateTopic(topic string, partitions int32) {
	b.t.Helper()
	if err := b.b.Cluster().CreateTopic(topic, partitions, nil); err != nil {
		b.t.Fatalf("create topic %s: %v", topic, err)
	}
}

// Cluster is the running broker: faults, group and partition information, control functions. It is a new one after each restart.
func (b *Broker) Cluster() *kfake.Cluster { return b.b.Cluster() }

// ControlKey has fn see every request of that kind (kmsg.Produce.Int16(), …; -1 for all) until the broker restarts. With false the request is handled as
// usual; with true the response is sent instead, or the connection is closed if an error is given. fn may block to delay
// the request and all others with it; Cluster().SleepControl delays this one alone.
func (b *Broker) ControlKey(key int16, fn func(kmsg.Request) (kmsg.Response, error, bool)) {
	cluster := b.b.Cluster()
	cluster.ControlKey(key, func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return fn(req)
	})
}

// Stop closes the broker cleanly, as SIGTERM does.
func (b *Broker) Stop() {
	b.t.Helper()
	if err := b.b.Close(); err != nil {
		b.t.Errorf("stop broker: %v", err)
	}
	b.b = nil
}

// Restart starts the broker on the same folder and address. The port may have gone to somebody else's outgoing connection for a moment, so it tries for a while.
func (b *Broker) Restart() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		var err error
		b.b, err = embedded.OpenBroker(ctx, slog.New(slog.DiscardHandler), b.dir, b.addr)
		if err == nil {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			b.t.Fatalf("restart broker: %v", err)
		}
	}
}

var errCrashed = errors.New("broker crashed")

// Crash takes the broker down with its folder as kill -9 would leave it: what was written is there, what a clean stop writes is not. A broker in this process
// cannot be killed, so its folder is copied between two requests, no request after that is answered, and the copy takes the folder's place.
func (b *Broker) Crash() {
	b.t.Helper()
	cluster := b.b.Cluster()
	image := b.t.TempDir()
	copied := make(chan error, 1)
	done := false // read and written only by the control function, of which one runs at a time
	cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if !done {
			done = true
			copied <- copyTree(image, b.dir)
		}
		return nil, errCrashed, true
	})
	if err := b.await(copied); err != nil {
		b.t.Fatalf("copy the folder of the crashing broker: %v", err)
	}
	b.Stop()
	if err := os.RemoveAll(b.dir); err != nil {
		b.t.Fatalf("remove the folder of the crashed broker: %v", err)
	}
	if err := os.Rename(image, b.dir); err != nil {
		b.t.Fatalf("put the copied folder in place: %v", err)
	}
}

// await sends requests until one has set off the copy.
func (b *Broker) await(copied <-chan error) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ping := make(chan struct{})
	go func() {
		defer close(ping)
		_ = client.Ping(ctx) // refused by design
	}()
	defer func() { <-ping }()
	defer cancel()
	select {
	case err := <-copied:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		return copyFile(filepath.Join(to, rel), path)
	})
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
