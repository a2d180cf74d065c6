package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// metadataMaxAge is how soon a new partition is seen (CON-03).
const metadataMaxAge = 5 * time.Second

// clientOptions are those of every client. more goes last and wins.
func clientOptions(brokers []string, more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.ClientID("chorus"),
		kgo.MetadataMaxAge(metadataMaxAge),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.RetryTimeout(10 * time.Second), // of one request; whoever asked then sees the error and tries again itself
		kgo.DialTimeout(3 * time.Second),
	}, more...)
}

// NewClient returns a client for requests, without consuming or producing. The caller closes it.
func NewClient(brokers []string, more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(clientOptions(brokers, more...)...)
}
