// Package spill keeps the messages of transactions that are received while they
// still run, until they end: a small part in memory, the rest in files.
//
// A Store belongs to one replication stream and dies with it. Its files are of
// no use to anybody later, since after a reconnection the server sends such
// transactions again from their beginning; so nothing is synced, and a crash
// loses nothing. What a crash leaves behind is removed by the next Open in the
// same directory: each Store has a folder of its own and holds a lock (flock) on
// a file in it for as long as its process lives, and a folder whose lock can be
// had is nobody's.
//
// The folder is readable by its owner alone: it holds rows.
//
// A Store is used by one goroutine; Usage may be called by others.
package spill
