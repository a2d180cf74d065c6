package cdc

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// checkKafka looks at what all sources share. The client is for the topics of
// the sources; nil when Kafka does not answer.
func checkKafka(ctx context.Context, cfg Config, r *Report) *producer {
	out, err := newProducer(cfg, "check", nil, nil)
	if err != nil {
		r.add("", "brokers", Problem, "correct the brokers and their settings", "%v", err)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	brokers, err := kadm.NewClient(out.client).ListBrokers(ctx)
	if err != nil {
		out.client.Close()
		r.add("", "brokers", Problem, "correct --brokers, or the listeners that the brokers advertise", "none of %v answers: %v", cfg.Brokers, err)
		return nil
	}
	r.add("", "brokers", OK, "", "%d answer for %v", len(brokers), cfg.Brokers)
	judgeClock(r, "", "kafka", func() (time.Time, error) { return brokerTime(ctx, out.client) })
	return out
}

// brokerTime asks the leader of a KRaft quorum, which says when its replicas
// were last up to date: it itself, now. Other brokers do not tell the time.
func brokerTime(ctx context.Context, client *kgo.Client) (time.Time, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = "__cluster_metadata"
	t.Partitions = append(t.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the KRaft quorum: %w", err)
	}
	var last int64
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			for _, v := range p.CurrentVoters {
				last = max(last, v.LastCaughtUpTimestamp)
			}
		}
	}
	if last <= 0 {
		return time.Time{}, fmt.Errorf("the quorum does not say (error code %d)", resp.ErrorCode)
	}
	return time.UnixMilli(last), nil
}

// checkClock compares the clock of the database with ours.
func (c *checker) checkClock(ctx context.Context, db *pgx.Conn) {
	judgeClock(c.report, c.cfg.Name, "database", func() (at time.Time, err error) {
		err = db.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&at)
		return at, err
	})
}

// Record times are those of the database. Kafka refuses records from further in
// the future than message.timestamp.after.max.ms, an hour by default, and
// deletes by them; latencies are measured against our clock.
const (
	clockWarns = 500 * time.Millisecond
	clockHarms = 10 * time.Minute
)

// judgeClock compares a clock with ours. The answer is taken for one of the
// middle of the question; the doubt is half of the time that it took.
func judgeClock(r *Report, source, whose string, ask func() (time.Time, error)) {
	const check = "clock"
	began := time.Now()
	at, err := ask()
	took := time.Since(began)
	if err != nil {
		r.add(source, check, Unknown, "", "%s does not tell its time: %v", whose, err)
		return
	}
	off := at.Sub(began.Add(took / 2))
	doubt := took/2 + time.Millisecond
	says := fmt.Sprintf("%s differs by %s from ours, give or take %s", whose, off.Round(time.Millisecond), doubt.Round(time.Millisecond))
	const cure = "have all machines keep their time by NTP"
	switch size := off.Abs() - doubt; {
	case size > clockHarms:
		r.add(source, check, Problem, cure, "%s", says)
	case size > clockWarns:
		r.add(source, check, Warning, cure, "%s", says)
	default:
		r.add(source, check, OK, "", "%s", says)
	}
}
