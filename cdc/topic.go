package cdc

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// makeTopic makes a topic that is not there, as Connect does by
// topic.creation.default.*, or has the broker make it as a producer's first use
// does, and waits until it is there. A broker that makes none leaves it unknown.
func (p *producer) makeTopic(ctx context.Context, admin *kadm.Client, name string) (kadm.TopicDetails, error) {
	if p.create.partitions > 0 {
		made, err := admin.CreateTopic(ctx, p.create.partitions, p.create.replication, nil, name)
		if err == nil {
			err = made.Err
		}
		switch {
		case errors.Is(err, kerr.InvalidTopicException), errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.PolicyViolation),
			errors.Is(err, kerr.InvalidReplicationFactor):
			return nil, refusal{"topic " + name + " cannot be made: " + err.Error(), false}
		case err != nil && !errors.Is(err, kerr.TopicAlreadyExists):
			return nil, err
		}
	}
	wait := time.NewTicker(50 * time.Millisecond)
	defer wait.Stop()
	for asked := 0; ; asked++ {
		if p.create.partitions == 0 {
			if err := askForTopic(ctx, p.client, name); err != nil {
				return nil, err
			}
		}
		found, err := admin.ListTopics(ctx, name)
		if err != nil {
			return nil, err
		}
		d := found[name]
		known := len(d.Partitions) > 0 && !slices.ContainsFunc(d.Partitions.Sorted(), func(p kadm.PartitionDetail) bool { return p.Leader < 0 })
		if known || d.Err != nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition) && !errors.Is(d.Err, kerr.LeaderNotAvailable) || asked == 60 {
			return found, nil
		}
		select {
		case <-wait.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// askForTopic asks for a topic's metadata in the way that lets a broker make it.
func askForTopic(ctx context.Context, client *kgo.Client, name string) error {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = true
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &name
	req.Topics = append(req.Topics, t)
	_, err := req.RequestWith(ctx, client)
	return err
}
