// Package outbox writes facts into the outbox table of a service, inside the
// transaction that makes them true.
//
// The table is the one that Debezium's Outbox Event Router reads, with the
// columns that a chain of facts needs beside it; chorus cdc (or Debezium)
// carries each committed row to Kafka. A service that uses this package needs
// no Kafka producer, and there is no moment in which the change is there and
// the fact is not, or the other way round (G1):
//
//	tx, err := pool.Begin(ctx)
//	…
//	_, err = tx.Exec(ctx, `UPDATE orders SET status = 'PLACED' WHERE id = $1`, order)
//	…
//	err = outbox.Append(ctx, tx, outbox.Row{
//		ID:            id,            // derived from the decision, so that a repeat has the same id
//		AggregateType: "orders",      // goes to the topic orders.events
//		AggregateID:   "8842",        // the Kafka key: rows of one key keep their order
//		Type:          "OrderPlaced",
//		Payload:       payload,       // arrives byte for byte as the record's value
//	})
//	…
//	err = tx.Commit(ctx)
//
// [Schema] makes the table and its publication. Rows are inserted and never
// updated; the publisher deletes them some time after they were published.
//
// A crash before the commit leaves neither change nor fact; a crash after it
// leaves both, and the publisher finds the row in the log when it is back. The
// row may be published twice (never zero times), which is why consumers
// recognise a fact by its id.
package outbox
