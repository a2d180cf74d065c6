// Package inbox consumes Kafka topics so that each fact takes effect once in
// PostgreSQL, whatever is redelivered, republished, rebalanced, paused or killed (D6, G4, G5).
//
// The caller's Handler runs inside the transaction in which the package keeps its own books. One transaction handles a bounded batch of one partition's records:
//
//  1. look the ids of the batch up in inbox; only those that are not there are new;
//  2. hand the new facts to the Handler in offset order, with the transaction;
//  3. insert their rows with its verdicts, sorted by id, and dead letters for what can never be handled; if a row is there by now, roll back and run again;
//  4. move the fence: partition_owner.next_offset, if the row still has this owner's epoch; otherwise roll back and stop;
//  5. commit; only then is the offset committed to Kafka, for lag alone.
//
// # What it stores
//
// Three tables in the caller's database, made by Schema. inbox has a row for each fact that was seen. partition_owner has the truth about
// progress: who owns a partition and which offset is next. dead_letters keeps what was set aside, with its raw bytes.
//
// # Holding keys
//
// A dead letter costs nobody else anything: what comes after it goes on, of the same key too. Where a later fact makes no sense without the earlier one, set
// Config.HoldKeys: then the later facts of that key and topic are set aside behind it, until a person has redriven or discarded it. A running consumer then handles them in order; one that fails
// becomes the dead letter that holds the rest.
//
// # What a crash leaves
//
// Before the commit: nothing; the batch is read again. Between the commit and Kafka's: Kafka's offset is behind, and nothing else, because the
// next owner starts from partition_owner. When the answer to a COMMIT is lost, the old backend is ended and the fence row is read again: if it moved,
// the batch is done. An owner that was frozen wakes to a connection that the next owner has ended, and an epoch that is not its own.
package inbox
