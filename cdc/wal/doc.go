// Package wal turns the messages of PostgreSQL's pgoutput plugin into
// transactions of outbox rows, or of rows of all tables (NewFeed). It is pure:
// bytes in, events out; it owns no connection, no clock and no position.
//
// A transaction of ordinary size is sent after its commit and whole, rows of a
// rolled back savepoint left out, transactions one after another in commit
// order. So a row may be published as soon as it is read, and nothing is
// buffered here however large the transaction is.
//
// With protocol version 2 a transaction that is larger than the server's
// logical_decoding_work_mem comes in blocks while it still runs, between others
// and perhaps to be rolled back, whole or in part. Its messages are handed out
// as they are (Streamed), to be kept until its Stream Commit comes, in the same
// commit order, and then to be replayed through a decoder of their own.
//
// Columns are found by the names in the Relation message that precedes the
// rows, never by position and never from the live catalog: after DROP COLUMN
// and ADD COLUMN the same backlog holds both layouts (CDC-08).
//
// What is not an outbox row does not stop the stream, since it would come
// again after every restart (CDC-04): updates, deletes, truncates, types,
// origins, stray stream aborts and kinds of message that do not exist yet are
// counted. Only what would lose a row is an error: a row of the outbox that
// cannot be read, a row of a partition or of a renamed outbox (CDC-09), and
// bytes that break the protocol.
package wal
