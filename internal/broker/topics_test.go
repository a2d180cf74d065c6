package broker

import (
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestEnsureTopicsAsksForTwoCopies: of three copies two must have a record before it counts (G2), also when the broker that is asked has
// not heard of the new topic yet. It was once taken for a topic with nothing to protect.
func TestEnsureTopicsAsksForTwoCopies(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	var made atomic.Bool
	var stale atomic.Int32
	cluster.ControlKey(int16(kmsg.CreateTopics), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		made.Store(true)
		return nil, nil, false
	})
	cluster.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := r.(*kmsg.MetadataRequest)
		if len(req.Topics) == 0 || !made.Load() || stale.Add(1) > 2 {
			return nil, nil, false
		}
		return unheardOf(t, cluster, req), nil, true
	})
	err = EnsureTopics(t.Context(), cluster.ListenAddrs(), map[string]int32{"new": 2})
	for deadline := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(deadline); {
		err = EnsureTopics(t.Context(), cluster.ListenAddrs(), map[string]int32{"new": 2})
	}
	if err != nil {
		t.Fatal(err)
	}
	if stale.Load() < 2 {
		t.Fatal("no broker was behind")
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	configs, err := kadm.NewClient(client).DescribeTopicConfigs(t.Context(), "new")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range configs[0].Configs {
		if entry.Key == minInsync && entry.MaybeValue() == "2" {
			return
		}
	}
	t.Errorf("%s is not 2: %v", minInsync, configs[0].Configs)
}

// unheardOf is the answer of a broker that does not know the topics.
func unheardOf(t *testing.T, cluster *kfake.Cluster, req *kmsg.MetadataRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	for i, addr := range cluster.ListenAddrs() {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Error(err)
		}
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host = int32(i), host
		n, _ := strconv.Atoi(port)
		b.Port = int32(n)
		resp.Brokers = append(resp.Brokers, b)
	}
	for _, topic := range req.Topics {
		mt := kmsg.NewMetadataResponseTopic()
		mt.Topic, mt.TopicID, mt.ErrorCode = topic.Topic, topic.TopicID, kerr.UnknownTopicOrPartition.Code
		resp.Topics = append(resp.Topics, mt)
	}
	return resp
}
