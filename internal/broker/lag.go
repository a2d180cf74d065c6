package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Lag is how far a group is behind in one partition.
type Lag struct {
	Topic     string
	Partition int32
	Committed int64 // -1 when the group has no commit here, which is a state of its own: see NoCommit
	Start     int64 // of the earliest record that is still there
	End       int64 // last stable offset: an open transaction's records are not waiting for anybody yet
	Behind    int64 // records to read, never negative; without a commit, all that are there
	NoCommit  bool
}

// GroupState is what an outside observer sees of a group.
type GroupState struct {
	Group   string
	State   string // as the broker calls it; "Dead" when there is no such group
	Members int
	Lags    []Lag // sorted by topic and partition
}

// GroupLag asks how far a group is in topics, the ones that it is declared to read: what it committed for others long ago is nobody's lag. Commits are read
// before end offsets, so that what moves in between makes the lag larger and never negative. Both kinds of groups, classic and KIP-848, are seen.
func GroupLag(ctx context.Context, client *kgo.Client, group string, topics []string) (GroupState, error) {
	out := GroupState{Group: group}
	admin := kadm.NewClient(client)
	commits, err := admin.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return out, fmt.Errorf("fetch the commits of group %s: %w", group, err)
	}
	start, err := ListStartOffsets(ctx, client, topics...)
	if err != nil {
		return out, err
	}
	end, err := ListEndOffsets(ctx, client, topics...)
	if err != nil {
		return out, err
	}
	for topic, partitions := range end {
		for partition, reached := range partitions {
			lag := Lag{Topic: topic, Partition: partition, Committed: -1, Start: start[topic][partition], End: reached}
			from := lag.Start
			c, ok := commits.Lookup(topic, partition)
			if ok && c.Err != nil {
				return out, fmt.Errorf("fetch the commit of group %s in %s/%d: %w", group, topic, partition, c.Err)
			}
			if lag.NoCommit = !ok || c.At < 0; !lag.NoCommit {
				lag.Committed = c.At
				from = max(from, c.At) // records that were deleted unread are not there to be read
			}
			lag.Behind = max(0, reached-from)
			out.Lags = append(out.Lags, lag)
		}
	}
	slices.SortFunc(out.Lags, func(a, b Lag) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition - b.Partition)
	})
	out.State, out.Members, err = members(ctx, admin, group)
	return out, err
}

// members counts a group's members, whichever protocol it speaks. A group of the new kind is unknown, or empty, to the classic question.
func members(ctx context.Context, admin *kadm.Client, group string) (state string, count int, err error) {
	if modern, err := admin.DescribeConsumerGroups(ctx, group); err == nil {
		if g, ok := modern[group]; ok && g.Err == nil {
			return g.State, len(g.Members), nil
		}
	}
	classic, err := admin.DescribeGroups(ctx, group)
	if err != nil {
		return "", 0, fmt.Errorf("describe group %s: %w", group, err)
	}
	g := classic[group]
	if errors.Is(g.Err, kerr.GroupIDNotFound) {
		return "Dead", 0, nil
	}
	if g.Err != nil {
		return "", 0, fmt.Errorf("describe group %s: %w", group, g.Err)
	}
	return g.State, len(g.Members), nil
}
