// Package quarantine keeps the records that Kafka refuses, and behind them the
// later records of their keys, in a table of the source database (G11, CDC-13).
//
// The publisher adds rows before its position passes them, and takes them in
// the order in which they were added. People look at them, and ask for what
// shall become of them; the publisher does it, between two transactions of the
// log. So one alone publishes the records of a key, and a new one cannot
// overtake those that are kept.
//
// States of a row: kept; asked (to be published); sending (exactly-once: in the
// batch that its number names); published and skipped, which are the end. A
// row in one of the first three holds its key. Rows that have come to their end
// stay: a replay of the log knows them by their place in it, and people what
// was done.
//
// What a crash leaves. A row is committed before the position passes its place;
// the replay finds it by its place and adds it no second time. Records that are
// acknowledged and not yet marked are published again; with exactly-once the
// number of the batch is in Kafka with them (bookmark.Position.Batch), and tells
// that they are there.
package quarantine
