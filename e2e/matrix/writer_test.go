package matrix

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// writers write rows all the time. A key has one writer, which numbers its rows
// so that the numbers grow with the commits; which of them were committed, when
// the server died in between, the table says in the end.
type writers struct {
	s    *stage
	stop func()

	mu    sync.Mutex // held by who writes, for one transaction; and by rest
	rests sync.RWMutex
	done  map[string]int // transactions by kind
}

func startWriters(s *stage, random *rand.Rand) *writers {
	ctx, cancel := context.WithCancel(s.t.Context())
	w := &writers{s: s, done: map[string]int{}}
	var all sync.WaitGroup
	w.stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	s.t.Cleanup(w.stop)
	for i := range 4 {
		own := rand.New(rand.NewPCG(random.Uint64(), uint64(i)))
		all.Go(func() { w.write(ctx, &writer{name: fmt.Sprintf("w%d", i), random: own}) })
	}
	return w
}

// rest does something while nobody writes.
func (w *writers) rest(do func()) {
	w.rests.Lock()
	defer w.rests.Unlock()
	do()
}

// kinds says how many transactions of each kind there were.
func (w *writers) kinds() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(w.done)) {
		all = append(all, fmt.Sprintf("%d %s", w.done[name], name))
	}
	return strings.Join(all, ", ")
}

func (w *writers) write(ctx context.Context, one *writer) {
	names := slices.Sorted(maps.Keys(kinds))
	for ctx.Err() == nil {
		w.rests.RLock()
		name := names[one.random.IntN(len(names))]
		err := one.ready(ctx, w.s.postgres.DSN())
		if err == nil {
			err = kinds[name](ctx, one)
		}
		w.rests.RUnlock()
		wait := time.Duration(20+one.random.IntN(60)) * time.Millisecond
		if err != nil { // the server is away
			one.close()
			wait = 100 * time.Millisecond
		} else {
			w.mu.Lock()
			w.done[name]++
			w.mu.Unlock()
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	one.close()
}

// writer has two sessions, so that its own transactions can be interleaved.
type writer struct {
	name   string
	random *rand.Rand
	number int
	a, b   *pgx.Conn
}

func (w *writer) ready(ctx context.Context, dsn string) error {
	for _, conn := range []**pgx.Conn{&w.a, &w.b} {
		if *conn != nil {
			continue
		}
		db, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		*conn = db
	}
	return nil
}

func (w *writer) close() {
	for _, conn := range []**pgx.Conn{&w.a, &w.b} {
		if *conn != nil {
			_ = (*conn).Close(context.Background()) // its server may be gone
			*conn = nil
		}
	}
}

const insertRows = `
INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, occurredat, correlationid, causationid, hop)
SELECT gen_random_uuid(), 'matrix', $1, 'T', convert_to(n || ' ' || repeat('x', $4), 'UTF8'), now(), '', '', 0 FROM generate_series($2::int, $3::int) AS n`

// insert writes rows of one of the writer's keys. A number is used once, also
// when its row is rolled back.
func (w *writer) insert(ctx context.Context, tx pgx.Tx, key string, rows, size int) error {
	from := w.number + 1
	w.number += rows
	_, err := tx.Exec(ctx, insertRows, w.name+"-"+key, from, w.number, size)
	return err
}

// kinds are the ways in which a transaction can write.
var kinds = map[string]func(ctx context.Context, w *writer) error{
	"one-row": func(ctx context.Context, w *writer) error {
		return pgx.BeginFunc(ctx, w.a, func(tx pgx.Tx) error { return w.insert(ctx, tx, "a", 1, 20) })
	},
	"multi-row": func(ctx context.Context, w *writer) error {
		return pgx.BeginFunc(ctx, w.a, func(tx pgx.Tx) error {
			for _, key := range []string{"a", "b", "a"} {
				if err := w.insert(ctx, tx, key, 1+w.random.IntN(5), 200); err != nil {
					return err
				}
			}
			return nil
		})
	},
	// The first to begin is the last to commit. Each has a key of its own.
	"interleaved": func(ctx context.Context, w *writer) error {
		return pgx.BeginFunc(ctx, w.a, func(outer pgx.Tx) error {
			if err := w.insert(ctx, outer, "c", 2, 50); err != nil {
				return err
			}
			if err := pgx.BeginFunc(ctx, w.b, func(inner pgx.Tx) error { return w.insert(ctx, inner, "b", 2, 50) }); err != nil {
				return err
			}
			return w.insert(ctx, outer, "c", 1, 50)
		})
	},
	"streamed": func(ctx context.Context, w *writer) error {
		return pgx.BeginFunc(ctx, w.a, func(tx pgx.Tx) error { return w.insert(ctx, tx, "a", 300, 500) })
	},
	"savepoint": func(ctx context.Context, w *writer) error {
		return pgx.BeginFunc(ctx, w.a, func(tx pgx.Tx) error {
			if err := w.insert(ctx, tx, "a", 2, 50); err != nil {
				return err
			}
			undone, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			if err := w.insert(ctx, undone, "b", 1+w.random.IntN(400), 500); err != nil { // now and then it is streamed
				return err
			}
			if err := undone.Rollback(ctx); err != nil {
				return err
			}
			return w.insert(ctx, tx, "b", 2, 50)
		})
	},
	"rolled back": func(ctx context.Context, w *writer) error {
		tx, err := w.a.Begin(ctx)
		if err != nil {
			return err
		}
		if err := w.insert(ctx, tx, "a", 1+w.random.IntN(300), 500); err != nil {
			return err
		}
		return tx.Rollback(ctx)
	},
}
