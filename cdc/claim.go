package cdc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chorus/cdc/bookmark"
)

// Timeouts after which Kafka aborts a transaction by itself. It hides what comes
// behind it in a partition from read_committed readers until then, if its owner
// is gone and nobody comes to take its place. The rows older than the slot are
// one transaction, which lasts as long as it takes to read them; the second is
// the most that Kafka grants without being told otherwise.
const (
	transactionTimeout = 30 * time.Second
	firstRowsTimeout   = 15 * time.Minute
)

// embeddedCluster is the cluster id of chorus's own broker.
const embeddedCluster = "chorus-embedded"

// transactionalID names the one who may publish a slot. It holds the server, so
// that slots of one name on two servers do not fence each other.
func transactionalID(system, slot string) string { return "chorus-cdc-" + system + "-" + slot }

// claim makes the producer the only one that can publish the slot, and reads
// where to go on. Its caller owns the slot.
//
//  1. InitProducerID: the transactional id's open transaction is aborted, one
//     that is being committed is waited for, and an older producer is fenced.
//  2. A transaction of our own brings a claim into the position's partition.
//  3. The partition is read, read_committed, to that claim. Nothing of an older
//     producer can come behind it, and everything that is committed lies before it.
//
// So the position that is found is the last one, whatever was under way. The
// transactions of other slots in the same partition hold the reader up for as
// long as they last.
func (e *exactly) claim(ctx context.Context) (found bookmark.Position, ok bool, err error) {
	client := e.out.client
	if err := e.refuseEmbedded(ctx); err != nil {
		return found, false, err
	}
	if e.topic, err = e.findPositionTopic(ctx); err != nil {
		return found, false, err
	}
	if _, _, err := client.ProducerID(ctx); err != nil {
		return found, false, fmt.Errorf("become the owner of slot %s in Kafka: %w", e.cfg.Slot, err)
	}
	mark := e.topic.claim()
	t, err := e.beginTransaction()
	if err != nil {
		return found, false, err
	}
	t.produce(mark)
	if err := t.commit(ctx); err != nil {
		return found, false, err
	}
	return e.readPosition(ctx, mark)
}

// refuseEmbedded refuses the embedded broker. It forgets open transactions when
// it is killed, so that half of one may come to be read, or all of it be lost.
func (e *exactly) refuseEmbedded(ctx context.Context) error {
	found, err := kadm.NewClient(e.out.client).BrokerMetadata(ctx)
	if err != nil {
		return fmt.Errorf("ask Kafka for its cluster id: %w", err)
	}
	if found.Cluster == embeddedCluster {
		return problem{"delivery is exactly-once, and this is the embedded broker, whose transactions do not survive a crash", "use Apache Kafka, or delivery: at-least-once"}
	}
	return nil
}

// readPosition reads the position's partition up to a record of ours.
func (e *exactly) readPosition(ctx context.Context, mark *kgo.Record) (found bookmark.Position, ok bool, err error) {
	reader, err := kgo.NewClient(append(e.out.servers,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{e.topic.name: {e.topic.partition: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(250*time.Millisecond),
	)...)
	if err != nil {
		return found, false, fmt.Errorf("make Kafka client: %w", err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*transactionTimeout)
	defer cancel()
	for {
		fetches := reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return found, false, fmt.Errorf("read topic %s up to the claim of slot %s: %w", e.topic.name, e.cfg.Slot, context.Cause(ctx))
		}
		if err := fetches.Err(); err != nil {
			return found, false, fmt.Errorf("read topic %s: %w", e.topic.name, err)
		}
		for records := fetches.RecordIter(); !records.Done(); {
			r := records.Next()
			switch {
			case bytes.Equal(r.Key, mark.Key) && bytes.Equal(r.Value, mark.Value):
				return found, ok, nil
			case bytes.Equal(r.Key, e.topic.key) && r.Value == nil:
				ok = false // somebody has deleted it
			case bytes.Equal(r.Key, e.topic.key):
				if found, err = bookmark.Decode(r.Value); err != nil {
					return found, false, problem{err.Error(), "topic " + e.topic.name + " is written by chorus cdc alone: delete what is not from it"}
				}
				ok = true
			}
		}
	}
}

// takeOver claims the slot, whose owner the session is, and has it go on where
// the position says. end is the end of the server's log.
func (s *session) takeOver(ctx context.Context, here bookmark.Server) error {
	s.busyWith("claiming the slot in Kafka")
	e := s.exactly
	found, ok, err := e.claim(ctx)
	switch {
	case err != nil:
		return err
	case !ok:
		found = bookmark.Position{System: here.System, Slot: here.Slot, End: here.Confirmed}
	case found.First:
		return errTorn
	case found.Timeline != here.Timeline:
		if here.Left, err = s.timelineLeft(ctx, here.Timeline, found.Timeline); err != nil {
			return err
		}
		fallthrough
	default:
		if err := found.Check(here); err != nil {
			return problem{err.Error(), anew(s.cfg)}
		}
	}
	found.Timeline = here.Timeline
	e.from, e.at = found, found
	e.sent.Store(found.Batch)
	s.flight.startAt(found.End)
	s.flight.stored(found.End)
	s.log.Info("slot is claimed in Kafka", "position", found.End.String(), "sequence", found.Sequence, "published", found.Count)
	if ok {
		return nil
	}
	// From now on a slot that was made anew is seen.
	return e.bring(ctx, group{})
}

// errTorn is a slot that was made by a start which did not come to its end: the
// rows that are older are not in Kafka.
var errTorn = errors.New("slot was made, and the rows that are older were not published: all is done anew")

// dropTorn drops such a slot. Nothing was published from it.
func (s *source) dropTorn(ctx context.Context) error {
	db, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	if _, err := db.Exec(ctx, "SELECT pg_drop_replication_slot($1)", s.cfg.Slot); err != nil {
		return fmt.Errorf("drop slot %s: %w", s.cfg.Slot, err)
	}
	s.log.Info("dropped slot of a start that did not come to its end", "slot", s.cfg.Slot)
	return nil
}
