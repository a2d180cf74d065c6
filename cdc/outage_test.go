package cdc_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chorus/cdc"
	"chorus/internal/pgtest"
)

// pause holds every produce request of the broker until the returned function
// is called. Other requests wait behind it.
func (r *rig) pause() (resume func()) {
	held := make(chan struct{})
	resume = sync.OnceFunc(func() { close(held) })
	r.t.Cleanup(resume)
	r.broker.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		<-held
		return nil, nil, false
	})
	return resume
}

// refusal is an answer that refuses all of a produce request.
func refusal(req *kmsg.ProduceRequest, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// replied is when the walsender last heard from the publisher, and its pid.
func (r *rig) replied() (at time.Time, pid int) {
	r.t.Helper()
	_ = r.db.QueryRow(r.t.Context(), `SELECT coalesce(max(a.reply_time), 'epoch'), coalesce(max(s.active_pid), 0)
	  FROM pg_replication_slots AS s LEFT JOIN pg_stat_replication AS a ON a.pid = s.active_pid WHERE s.slot_name = $1`, r.slot()).Scan(&at, &pid)
	return at, pid
}

// G3, E7, E8, E13, E23, E27: while Kafka is silent the position stays, the
// connection lives on for many times wal_sender_timeout, other tables and
// keepalives change nothing, and the source says that it is stalled.
func TestNothingIsConfirmedBeforeItsAcknowledgement(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET wal_sender_timeout = ''1s''', current_database()); END $$`)
	r.exec(`CREATE TABLE noise (n int)`)
	p := r.start()
	want := map[string][]int64{"1": r.insert(1, "1")}
	p.waitState(cdc.CaughtUp)
	topic := r.read()
	topic.complete(want)
	resume := r.pause()
	before := r.end()
	want["1"] = append(want["1"], r.insert(100, "1")...)
	after := r.end()
	began, pid := r.replied()
	eventually(t, "5 s of replies", func() bool {
		r.exec(`INSERT INTO noise (n) VALUES (1)`)
		if at := r.confirmed(); at >= after {
			t.Fatalf("confirmed %X, beyond %X, with nothing acknowledged since %X", at, after, before)
		}
		at, _ := r.replied()
		return at.Sub(began) > 5*time.Second
	})
	p.waitStalled("acknowledged nothing")
	if _, now := r.replied(); now != pid {
		t.Errorf("walsender %d was replaced by %d", pid, now)
	}
	resume()
	if n := topic.complete(want); n != 0 {
		t.Errorf("%d rows twice", n)
	}
	r.waitConfirmed(after)
	p.waitState(cdc.CaughtUp)
}

// E8, E12: what was read and not acknowledged comes again after kill -9.
func TestKillWhileKafkaIsSilent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.spawn()
	p.waitState(cdc.CaughtUp)
	resume := r.pause()
	want := map[string][]int64{"1": r.insert(100, "1"), "2": r.insert(100, "2")}
	eventually(t, "records in flight", func() bool {
		s, ok := p.ready()
		return ok && s.Sources[0].Unacknowledged == 200
	})
	p.kill()
	resume()
	r.start()
	r.read().complete(want)
}

// Kills at any moment, with writers going on: nothing lost, order kept.
func TestKillsInTheMiddleLoseNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic := r.read()
	want := map[string][]int64{}
	write := func(n int) {
		for i := range n {
			key := fmt.Sprint(i % 5)
			want[key] = append(want[key], r.insert(1+i%20, key)...)
		}
	}
	for round := range 6 {
		p := r.spawn()
		before := r.confirmed()
		write(10 + round)
		// Killed with the acknowledgements of some transactions on their way,
		// as soon as the first was confirmed.
		eventually(t, "progress", func() bool { write(1); return r.confirmed() > before })
		write(20)
		p.kill()
	}
	write(10)
	r.start()
	t.Logf("%d rows came twice", topic.complete(want))
}

// CDC-21: rows that waited and rows that came meanwhile leave in order.
func TestBrokerOutageKeepsOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	want := map[string][]int64{"1": r.insert(1, "1")} // the topic is known from now on
	r.read().complete(want)
	r.broker.Stop()
	for range 3 {
		want["1"] = append(want["1"], r.insert(1, "1")...)
	}
	eventually(t, "records in flight", func() bool {
		s, ok := p.ready()
		return ok && s.Sources[0].Unacknowledged == 3
	})
	r.broker.Restart()
	for range 3 {
		want["1"] = append(want["1"], r.insert(1, "1")...)
	}
	r.read().complete(want)
	p.waitState(cdc.CaughtUp)
}

// E37: the broker dies in the middle and comes back without the sequence
// numbers of its producers.
func TestBrokerCrashesInTheMiddle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	want := map[string][]int64{}
	write := func(n int) {
		for i := range n {
			key := fmt.Sprint(i % 3)
			want[key] = append(want[key], r.insert(1+i%7, key)...)
		}
	}
	for range 3 {
		write(30)
		r.broker.Crash()
		write(30)
		r.broker.Restart()
	}
	write(30)
	t.Logf("%d rows came twice", r.read().complete(want))
	p.waitState(cdc.CaughtUp)
}

// E37: a broker that has forgotten what the producer sent gets all that is not
// confirmed again, in order, from another one.
func TestSequenceErrorBeginsAnew(t *testing.T) {
	t.Parallel()
	for _, code := range []*kerr.Error{kerr.UnknownProducerID, kerr.OutOfOrderSequenceNumber} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := r.start()
			p.waitState(cdc.CaughtUp)
			topic := r.read()
			want := map[string][]int64{"1": r.insert(3, "1")}
			topic.complete(want)
			_, pid := r.replied()
			var once sync.Once
			r.broker.ControlKey(kmsg.Produce.Int16(), func(req kmsg.Request) (resp kmsg.Response, err error, answered bool) {
				once.Do(func() { resp, answered = refusal(req.(*kmsg.ProduceRequest), code.Code), true })
				return resp, nil, answered
			})
			for range 20 {
				want["1"] = append(want["1"], r.insert(2, "1")...)
			}
			topic.complete(want)
			eventually(t, "another walsender", func() bool { _, now := r.replied(); return now != 0 && now != pid })
			p.waitState(cdc.CaughtUp)
		})
	}
}

// E24: the walsender dies; what is in flight is not sent again.
func TestReplicationConnectionIsMadeAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start()
	p.waitState(cdc.CaughtUp)
	topic := r.read()
	want := map[string][]int64{}
	for range 3 {
		want["1"] = append(want["1"], r.insert(5, "1")...)
		_, pid := r.replied()
		r.exec(`SELECT pg_terminate_backend($1)`, pid)
		want["1"] = append(want["1"], r.insert(5, "1")...)
		eventually(t, "another walsender", func() bool { _, now := r.replied(); return now != 0 && now != pid })
	}
	topic.complete(want)
}

// E16, E24: the server crashes and comes back; nothing is lost.
func TestDatabaseCrash(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	r := newRigOn(t, server.DSN())
	p := r.start()
	topic := r.read()
	want := map[string][]int64{"1": r.insert(5, "1")}
	topic.complete(want)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	p.waitState(cdc.Stalled)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.db = r.connect()
	want["1"] = append(want["1"], r.insert(5, "1")...)
	topic.complete(want)
	p.waitState(cdc.CaughtUp)
}

// CDC-19: a fast shutdown waits for the walsender, which waits for us: idle, and
// with rows that Kafka does not take.
func TestDatabaseShutdownIsNotHeldUp(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]bool{"idle": false, "Kafka silent": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Server(t)
			r := newRigOn(t, server.DSN())
			p := r.start()
			topic := r.read()
			want := map[string][]int64{"1": r.insert(1, "1")}
			topic.complete(want)
			p.waitState(cdc.CaughtUp)
			resume := func() {}
			if silent {
				resume = r.pause()
				want["1"] = append(want["1"], r.insert(5, "1")...)
				eventually(t, "records in flight", func() bool {
					s, ok := p.ready()
					return ok && s.Sources[0].Unacknowledged == 5
				})
			}
			// The kit's Stop resorts to SIGQUIT at the end of its context, and
			// then the server's log does not speak of a shutdown.
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			began := time.Now()
			if err := server.Stop(ctx); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("shutdown took %s", took)
			}
			resume()
			if err := server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.db = r.connect()
			want["1"] = append(want["1"], r.insert(1, "1")...)
			topic.complete(want)
		})
	}
}

// CDC-01: the slot of an idle outbox follows the log, and only the idle one's.
func TestIdleSlotFollowsTheLog(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t) // its log must be this test's alone
	r := newRigOn(t, server.DSN())
	r.exec(`CREATE TABLE busy (t text)`)
	p := r.spawn()
	p.waitState(cdc.CaughtUp)
	r.exec(`INSERT INTO busy (t) SELECT repeat('x', 1000) FROM generate_series(1, 100000)`)
	for range 3 {
		r.exec(`SELECT pg_switch_wal()`)
	}
	r.waitConfirmed(r.end())
	// restart_lsn moves with the running transactions that are logged now and then.
	r.exec(`CHECKPOINT`)
	eventually(t, "restart_lsn within a segment", func() bool {
		var behind int64
		if err := r.db.QueryRow(t.Context(), `SELECT (pg_current_wal_lsn() - restart_lsn)::bigint FROM pg_replication_slots WHERE slot_name = $1`, r.slot()).Scan(&behind); err != nil {
			t.Fatal(err)
		}
		return behind <= 16<<20
	})
	resume := r.pause()
	want := map[string][]int64{"1": r.insert(1, "1")}
	eventually(t, "record in flight", func() bool {
		s, ok := p.ready()
		return ok && s.Sources[0].Unacknowledged == 1
	})
	p.kill()
	resume()
	r.start()
	r.read().complete(want)
}

// A stop waits for what was sent, confirms it, and waits no longer than told.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.start()
	topic := r.read()
	want := map[string][]int64{"1": r.insert(1, "1")}
	topic.complete(want)
	resume := r.pause()
	want["1"] = append(want["1"], r.insert(50, "1")...)
	end := r.end()
	eventually(t, "records in flight", func() bool {
		s, ok := p.ready()
		return ok && s.Sources[0].Unacknowledged == 50
	})
	p.cancel()
	_, pid := r.replied()
	if pid == 0 {
		t.Error("the slot was left before the acknowledgements came")
	}
	resume()
	p.stop()
	eventually(t, "end of the session", func() bool { _, pid := r.replied(); return pid == 0 })
	if at := r.confirmed(); at < end {
		t.Errorf("stopped at %X, before the end of the last transaction %X", at, end)
	}
	r.start().waitState(cdc.CaughtUp)
	if n := topic.complete(want); n != 0 {
		t.Errorf("%d rows twice", n)
	}
}

func TestStopWaitsNoLongerThanTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.DrainTimeout = 300 * time.Millisecond
	p := r.start()
	topic := r.read()
	want := map[string][]int64{"1": r.insert(1, "1")}
	topic.complete(want)
	resume := r.pause()
	want["1"] = append(want["1"], r.insert(5, "1")...)
	end := r.end()
	eventually(t, "records in flight", func() bool {
		s, ok := p.ready()
		return ok && s.Sources[0].Unacknowledged == 5
	})
	began := time.Now()
	p.stop()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stop took %s", took)
	}
	if at := r.confirmed(); at >= end {
		t.Errorf("confirmed %X without an acknowledgement", at)
	}
	resume()
	r.start()
	topic.complete(want)
}
