// Package tracker keeps the story of every order: the facts of all topics, folded into a timeline with
// its status and its waits (D4, D10). Reading goes through it; it decides nothing and states nothing.
//
// It owns the tables facts and orders of its own database, and the inbox's, which holds what could not be folded. Each batch is one transaction with the inbox rows and the
// fence, so a crash leaves either none of it or all of it. A fold does not depend on the order in which facts come in, so topics may be read at any
// pace, and a database that is thrown away comes back the same from the topics, as far as retention reaches.
package tracker

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/inbox"
	"chorus/internal/choreography"
	"chorus/internal/codec"
	"chorus/internal/event"
	"chorus/internal/participant"
)

// Name is the tracker's consumer group and the scope of its inbox.
const Name = "tracker"

//go:embed schema/*.sql
var schema embed.FS

// Schema is the package's own migrations, for pg.Migrate. The inbox's tables (inbox.Schema) are needed too.
func Schema() fs.FS { return schema }

// Topics are all that the tracker reads.
func Topics() []string {
	var topics []string
	for _, owner := range event.Owners() {
		topics = append(topics, owner.Topic())
	}
	return topics
}

// Tracker folds facts and answers questions about orders. Its methods may be used by any number of goroutines.
type Tracker struct {
	log    *slog.Logger
	db     *pgxpool.Pool
	reader *participant.Reader
	bodies *codec.Codec // the form in which facts are kept: JSON
	waits  choreography.Durations
	hub    hub
	counts counted
}

// New returns a tracker on a migrated database. c reads the topics; what it has to learn it asks for until ctx ends.
func New(ctx context.Context, log *slog.Logger, db *pgxpool.Pool, c *codec.Codec, waits choreography.Durations) (*Tracker, error) {
	bodies, err := codec.New(nil, codec.JSON)
	if err != nil {
		return nil, fmt.Errorf("make the tracker's JSON codec: %w", err)
	}
	return &Tracker{
		log: log, db: db, reader: participant.NewReader(ctx, c), bodies: bodies, waits: waits,
		hub: hub{subs: map[event.OrderNo]map[*Subscription]struct{}{}},
	}, nil
}

// pace has the facts of an order come together in one transaction when many orders are under way: its row is then written once or
// twice instead of six times. It is what a page may lag behind, and well below what people notice.
const pace = 100 * time.Millisecond

// never is a horizon beyond any topic's age. An old fact may be folded again without harm, since its natural key absorbs it, so
// the tracker sets none aside for its age: a view rebuilt from the topics has all of them.
const never = 100 * 365 * 24 * time.Hour

// Consumer returns the consumer that feeds the tracker, to be run by the caller. dsn is that of the tracker's database: each
// partition has a connection of its own.
func (t *Tracker) Consumer(brokers []string, dsn, instance string) (*inbox.Consumer, error) {
	return inbox.New(t.log, inbox.Config{
		Brokers: brokers, Group: Name, Topics: Topics(), Postgres: dsn, Horizon: never, InstanceID: instance, Committed: t.committed,
		Pace: pace, Together: true,
	}, t.receive)
}
