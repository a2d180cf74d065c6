// Package embedded runs a Kafka-protocol broker (franz-go's kfake) and a schema registry in one small process, so that a whole cluster
// starts on a machine without Docker, Java or Kafka.
//
// It owns a data folder: kafka/ (topic segments, committed offsets; kfake's format), registry.log (changes made to the registry at run time),
// unclean (present while the broker runs) and lock.
//
// What a crash leaves. Acknowledged records and committed offsets survive kill -9 of the process, because each is written to its file before
// it is acknowledged; they do not survive a power cut, as nothing is flushed to the disk in between. What kfake keeps only in memory is lost: the
// sequence numbers of idempotent producers, so a retry across the crash is stored twice, and open transactions, so exactly-once delivery must
// not be used with this broker. A producer that is not known begins at its first batch again, so none of them overtakes another. Three rules keep it
// from losing data by itself: no transactions, no retention or compaction settings on a topic, SIGTERM and wait for the end.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"chorus/internal/cluster/dirlock"
)

// brokerSettings are those that a reader of the cluster would notice. kfake's defaults for the server-side group protocol (heartbeat 5 s, session
// 45 s) make each rebalance take 5 s, and a killed consumer's partitions stand still for 45 s.
var brokerSettings = map[string]string{
	"group.consumer.heartbeat.interval.ms": "500",
	"group.consumer.session.timeout.ms":    "6000",
}

// versions are all that kfake knows, but for one. Kafka since 2.5 takes any batch of a producer that it does not know for its first one (KIP-360), and knows
// its producers over a crash, from the log. This broker does not, so of two batches that were on their way the second could be taken before the first is
// sent again. A broker of before 2.5, which has InitProducerID up to version 2, refuses it; the client then sends both anew, in order.
func versions() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(kmsg.InitProducerID.Int16(), 2)
	return v
}

// predecessorGrace is how long a new broker waits for one whose parent died to finish closing the same folder.
const predecessorGrace = 10 * time.Second

// Broker is a running broker on one data folder.
type Broker struct {
	cluster *kfake.Cluster
	lock    *dirlock.Lock
	marker  string
	addr    string
	unclean bool
}

// OpenBroker starts a broker with its data in dir, listening on addr ("127.0.0.1:9092"; port 0 picks one). Only loopback addresses are accepted:
// the broker has no authentication, and it tells clients to connect to the very address it listens on.
func OpenBroker(ctx context.Context, log *slog.Logger, dir, addr string) (*Broker, error) {
	port, err := loopbackPort(addr)
	if err != nil {
		return nil, err
	}
	lock, err := dirlock.Acquire(ctx, dir, predecessorGrace)
	if err != nil {
		return nil, err
	}
	b := &Broker{lock: lock, marker: filepath.Join(lock.Dir(), "unclean")}
	if err := b.open(log, addr, port); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return b, nil
}

func (b *Broker) open(log *slog.Logger, addr string, port int) error {
	unclean, err := mark(b.marker)
	if err != nil {
		return err
	}
	b.unclean = unclean
	data := filepath.Join(b.lock.Dir(), "kafka")
	if unclean {
		log.Warn("broker was not stopped cleanly: producers that retried then may have stored a record twice", "dir", data)
	}
	b.cluster, err = kfake.NewCluster(
		kfake.Ports(port),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) { return net.Listen(network, addr) }),
		kfake.ClusterID("chorus-embedded"),
		kfake.DataDir(data),
		kfake.BrokerConfigs(brokerSettings),
		kfake.MaxVersions(versions()),
		kfake.WithLogger(brokerLog{log}),
	)
	if err != nil {
		return fmt.Errorf("start broker on %s with data in %s: %w", addr, data, err)
	}
	b.addr = b.cluster.ListenAddrs()[0]
	log.Info("broker started", "kafka", b.addr, "dir", data, "bytes", size(data))
	return nil
}

// Addr is the address that clients connect to.
func (b *Broker) Addr() string { return b.addr }

// Cluster gives control over the broker: requests can be observed, delayed and failed with it.
func (b *Broker) Cluster() *kfake.Cluster { return b.cluster }

// Unclean says that the run before this one did not end with Close.
func (b *Broker) Unclean() bool { return b.unclean }

// Close writes all state to the folder and gives it up. The mark of an unclean stop is removed last: a crash in between costs only a warning.
func (b *Broker) Close() error {
	b.cluster.Close()
	err := os.Remove(b.marker)
	if err != nil {
		err = fmt.Errorf("remove mark of an unclean stop: %w", err)
	}
	return errors.Join(err, b.lock.Release())
}

// mark creates the file that only a clean stop removes, and says whether it was there already.
func mark(path string) (found bool, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("mark broker as running: %w", err)
	}
	return false, f.Close()
}

func loopbackPort(addr string) (int, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, fmt.Errorf("broker address %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return 0, fmt.Errorf("broker address %q: the embedded broker listens on a loopback IP only", addr)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("broker address %q: port: %w", addr, err)
	}
	return int(n), nil
}

// size is the number of bytes in all files below dir, 0 where it cannot be read: it is only logged, since nothing ever deletes old records here.
func size(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

// brokerLog passes kfake's warnings and errors on; its information lines are one per request.
type brokerLog struct{ log *slog.Logger }

func (l brokerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.log.Error("kafka broker", "says", fmt.Sprintf(format, args...))
	case kfake.LogLevelWarn:
		l.log.Warn("kafka broker", "says", fmt.Sprintf(format, args...))
	}
}
