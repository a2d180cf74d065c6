// Package debezium makes of a row what Debezium's Outbox Event Router on Kafka
// Connect makes of it: the same topic, key, value, headers, partition and time
// for the same connector configuration. It is the drop-in half of cdc, and
// reads no database and no clock: rows, their tables and the random numbers
// come in, records go out.
//
//   - Parse reads the options of a connector, and says which of them it does
//     not honour and which it cannot do without changing the records.
//   - Connector.Table compiles a table: the Connect schema of each column, as
//     the PostgreSQL connector makes it, and where the router's columns are.
//   - Table.Route makes a record of a row; Connector.Message of a logical
//     decoding message.
//
// It behaves as Debezium 3.6 does, not as its documentation says; the corpus
// in cdc/testdata/golden is the judge. Where Debezium stops at a row, Route
// returns an error that says why; where it publishes, so does Route.
package debezium
