package cdc

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the counters of a process, by source.
type metrics struct {
	rows, records, bytes, reconnects, pruned *prometheus.CounterVec
	quarantined                              *prometheus.CounterVec
	ignored                                  *prometheus.CounterVec
	latency                                  *prometheus.HistogramVec
}

// sourceMetrics are those of one source.
type sourceMetrics struct {
	rows, records, bytes, reconnects, pruned prometheus.Counter
	quarantined                              prometheus.Counter
	ignored                                  *prometheus.CounterVec // by kind
	latency                                  prometheus.Observer
}

func newMetrics(registry *prometheus.Registry) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "chorus_cdc_" + name, Help: help}, append([]string{"source"}, labels...))
		registry.MustRegister(v)
		return v
	}
	m := &metrics{
		rows:        counter("rows_total", "Outbox rows read from the log or the first snapshot; a row read again counts again."),
		records:     counter("records_total", "Records that Kafka acknowledged."),
		bytes:       counter("record_bytes_total", "Bytes of these records, uncompressed: keys, values and headers with their lengths."),
		reconnects:  counter("reconnects_total", "Replication sessions that ended, or could not begin, and were tried again."),
		pruned:      counter("pruned_rows_total", "Published outbox rows that were deleted."),
		quarantined: counter("quarantined_records_total", "Records put into quarantine: refused by Kafka, or behind another of their key; a record read again counts again."),
		ignored:     counter("ignored_messages_total", "Messages of the stream that are no new outbox row: update, delete, truncate, foreign (another table), type, origin, message, stream_abort, unknown.", "kind"),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "chorus_cdc_commit_to_ack_seconds",
			Help:    "From the commit, by the clock of the database, to the acknowledgement, by ours.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60, 600},
		}, []string{"source"}),
	}
	registry.MustRegister(m.latency)
	return m
}

func (m *metrics) of(source string) sourceMetrics {
	return sourceMetrics{
		rows:        m.rows.WithLabelValues(source),
		records:     m.records.WithLabelValues(source),
		bytes:       m.bytes.WithLabelValues(source),
		reconnects:  m.reconnects.WithLabelValues(source),
		pruned:      m.pruned.WithLabelValues(source),
		quarantined: m.quarantined.WithLabelValues(source),
		ignored:     m.ignored.MustCurryWith(prometheus.Labels{"source": source}),
		latency:     m.latency.WithLabelValues(source),
	}
}

// collector reports the present state of the sources.
type collector []*source

var (
	lagDesc        = prometheus.NewDesc("chorus_cdc_slot_lag_bytes", "From the slot's confirmed position to the end of the log; missing while it is not known.", []string{"source"}, nil)
	retainedDesc   = prometheus.NewDesc("chorus_cdc_retained_wal_bytes", "Log that the server keeps for the slot.", []string{"source"}, nil)
	safeDesc       = prometheus.NewDesc("chorus_cdc_safe_wal_bytes", "Log that may be written before the slot is lost; missing without max_slot_wal_keep_size.", []string{"source"}, nil)
	lossDesc       = prometheus.NewDesc("chorus_cdc_slot_loss_seconds", "Until the slot is lost, if the log grows as in the last half minute and nothing more is confirmed; missing without a limit.", []string{"source"}, nil)
	inFlightDesc   = prometheus.NewDesc("chorus_cdc_transactions_in_flight", "Transactions that are not confirmed, the one that is being received among them.", []string{"source"}, nil)
	stateDesc      = prometheus.NewDesc("chorus_cdc_state", "1 for the state that the source is in, 0 for the others.", []string{"source", "state"}, nil)
	quarantineDesc = prometheus.NewDesc("chorus_cdc_quarantine_rows", "Records in quarantine that hold their keys.", []string{"source"}, nil)
	unackedDesc    = prometheus.NewDesc("chorus_cdc_unacknowledged_records", "Records sent and not acknowledged.", []string{"source"}, nil)
	heldDesc       = prometheus.NewDesc("chorus_cdc_held_transactions", "Large transactions that are received while they run, and kept until they end.", []string{"source"}, nil)
	spillDesc      = prometheus.NewDesc("chorus_cdc_spill_bytes", "Of these, what is in files.", []string{"source"}, nil)
	readyDesc      = prometheus.NewDesc("chorus_cdc_ready", "1 when the source publishes, live or caught up; 0 when it is stalled.", []string{"source"}, nil)
)

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- lagDesc
	ch <- quarantineDesc
	ch <- retainedDesc
	ch <- safeDesc
	ch <- lossDesc
	ch <- inFlightDesc
	ch <- stateDesc
	ch <- unackedDesc
	ch <- heldDesc
	ch <- spillDesc
	ch <- readyDesc
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c {
		st := s.status()
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, s.cfg.Name)
		}
		if st.SlotLagBytes != nil {
			gauge(lagDesc, float64(*st.SlotLagBytes))
			gauge(retainedDesc, float64(*st.RetainedBytes))
		}
		if st.SafeBytes != nil {
			gauge(safeDesc, float64(*st.SafeBytes))
		}
		if st.SecondsToLoss != nil {
			gauge(lossDesc, *st.SecondsToLoss)
		}
		for _, state := range states {
			is := 0.0
			if state == st.State {
				is = 1
			}
			ch <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, is, s.cfg.Name, string(state))
		}
		gauge(inFlightDesc, float64(st.InFlight))
		gauge(quarantineDesc, float64(st.Quarantined))
		gauge(unackedDesc, float64(st.Unacknowledged))
		if st.Held != nil {
			gauge(heldDesc, float64(st.Held.Transactions))
			gauge(spillDesc, float64(st.Held.DiskBytes))
		}
		ready := 0.0
		if st.ready() {
			ready = 1
		}
		gauge(readyDesc, ready)
	}
}
