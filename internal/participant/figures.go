package participant

import (
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"chorus/inbox"
	"chorus/internal/broker"
)

// figures are a consumer's metrics, read when they are asked for.
type figures struct {
	db    *pgxpool.Pool
	facts *inbox.Consumer
}

// Figures returns the metrics of a consumer and its pool.
func Figures(db *pgxpool.Pool, facts *inbox.Consumer) prometheus.Collector { return figures{db, facts} }

var (
	partitionRunning = prometheus.NewDesc("chorus_partition_running", "1 while the partition's facts are handled, 0 while it waits.", []string{"topic", "partition"}, nil)
	partitionNext    = prometheus.NewDesc("chorus_partition_next_offset", "Offset of the first fact that is not handled.", []string{"topic", "partition"}, nil)
	connsInUse       = prometheus.NewDesc("chorus_db_connections_in_use", "Connections of the pool that are in use.", nil, nil)
	connsOpen        = prometheus.NewDesc("chorus_db_connections_open", "Connections of the pool.", nil, nil)
	connsWaited      = prometheus.NewDesc("chorus_db_connection_waits_total", "How often somebody had to wait for a connection.", nil, nil)
)

func (figures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{partitionRunning, partitionNext, connsInUse, connsOpen, connsWaited} {
		to <- d
	}
}

func (f figures) Collect(to chan<- prometheus.Metric) {
	for _, p := range f.facts.Status() {
		running := 0.0
		if p.State == broker.Running {
			running = 1
		}
		at := []string{p.Topic, strconv.Itoa(int(p.Partition))}
		to <- prometheus.MustNewConstMetric(partitionRunning, prometheus.GaugeValue, running, at...)
		to <- prometheus.MustNewConstMetric(partitionNext, prometheus.GaugeValue, float64(p.Next), at...)
	}
	pool := f.db.Stat()
	to <- prometheus.MustNewConstMetric(connsInUse, prometheus.GaugeValue, float64(pool.AcquiredConns()))
	to <- prometheus.MustNewConstMetric(connsOpen, prometheus.GaugeValue, float64(pool.TotalConns()))
	to <- prometheus.MustNewConstMetric(connsWaited, prometheus.CounterValue, float64(pool.EmptyAcquireCount()))
}
