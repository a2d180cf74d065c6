// Package cdc publishes outbox tables to Kafka. For each source it reads the
// write-ahead log of a PostgreSQL database through one replication slot,
// and sends each committed row of the outbox as one record (D8).
//
// It guarantees that a committed row reaches Kafka at least once, and the rows
// of one key in commit order (G2). The position is the slot's, in the source
// database, and moves only to the end of the last transaction before which every
// record was acknowledged by all in-sync replicas (G3). A table beside the slot
// holds a lower bound of it, so that a slot is recognised; see positionTable.
//
// With exactly-once delivery the position is kept in Kafka, in the transactions
// that bring the rows, and the slot follows it; see exactly, claim and firstRows.
//
// # The record
//
// Topic: the column aggregatetype followed by ".events". Key: aggregateid; the
// partition is murmur2 of it, as the Java client's default. Value: the bytes
// of payload, NULL being a Kafka null. Timestamp: the commit. Headers, all
// text, in this order: id, eventType, aggregateType, occurredAt (RFC 3339, UTC,
// microseconds), correlationId, causationId, hop, traceparent, tracestate; one
// whose column is NULL or missing is left out.
//
// A source with Debezium options makes other records: those of a Debezium
// connector with the Outbox Event Router, by the package debezium. It reads the
// rows of all captured tables with their updates and deletes, and logical
// decoding messages; what follows holds for it too.
//
// # What a crash leaves
//
// The slot keeps the last position that was confirmed, so records sent since
// then are sent again: consumers see a stretch of the topic twice, with the
// same ids, never a gap and never a key's rows in another order at their first
// arrival. A clean stop waits for the acknowledgements and repeats nothing.
// Creating the slot is the one thing that takes several steps; see snapshot.
//
// # What stops a source
//
// An outage of either side is waited out. What Kafka would refuse for good (a
// record that is too large, a topic that does not exist) is found before it is
// sent, so that nothing of the same key overtakes it: the source stands still
// at that row, says so, and tries again. It is never skipped, but by a drop-in
// with errors.tolerance=all. With on_refused: quarantine it is kept in a table,
// with the later rows of its key. The other sources go on.
package cdc
