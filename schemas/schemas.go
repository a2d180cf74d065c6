// Package schemas holds the Avro schemas of all facts, one file a fact, embedded
// in the binary (D9). It knows nothing of Avro: internal/codec reads and writes values.
//
// The files here are what services write. released/ holds every version that
// was ever written into a topic, because a topic may still hold it; a version
// there never changes, nor does its id in the embedded registry, for both are in records that nobody
// can mend. Any two versions of a schema can be read by each other's readers (FULL_TRANSITIVE), which a test checks:
// a new field has a default, a field with a default may go, a new symbol of an enum goes to its end.
//
// To change a schema: edit its file, copy it to released/ as the next version, and add a
// line with a new id to the table below.
package schemas

import (
	"embed"
	"fmt"
)

//go:embed *.avsc released/*.avsc
var files embed.FS

// Namespace is that of all records; with a fact's type it makes the record's full name.
const Namespace = "chorus.events"

// Schema is one version of a fact's schema.
type Schema struct {
	Subject string // full name of the record, which is its subject in every registry
	Type    string // the fact's type, as it stands in the eventType header
	Version int    // from 1; in the embedded registry
	ID      int    // in the embedded registry, fixed for ever; other registries give their own
	Text    string // Avro
}

// List returns the schema in which each fact is written now, in the catalogue's order.
func List() []Schema {
	var current []Schema
	for _, s := range Released() {
		s.Text = read(s.Type + ".avsc")
		for i := range current {
			if current[i].Type == s.Type {
				current[i] = s
			}
		}
		if s.Version == 1 {
			current = append(current, s)
		}
	}
	return current
}

// Released returns every version of every schema, by id: what the embedded registry serves, and what a topic may hold.
func Released() []Schema {
	all := released()
	for i := range all {
		s := &all[i]
		s.Subject = Namespace + "." + s.Type
		s.Text = read(fmt.Sprintf("released/%s.v%d.avsc", s.Type, s.Version))
	}
	return all
}

// released is the table of ids. Lines are only ever added, at the end; the versions of one type in their order.
func released() []Schema {
	return []Schema{
		{ID: 1, Type: "OrderPlaced", Version: 1},
		{ID: 2, Type: "OrderCancellationRequested", Version: 1},
		{ID: 3, Type: "OrderConfirmed", Version: 1},
		{ID: 4, Type: "OrderRejected", Version: 1},
		{ID: 5, Type: "OrderFailed", Version: 1},
		{ID: 6, Type: "OrderCancelled", Version: 1},
		{ID: 7, Type: "OrderShipped", Version: 1},
		{ID: 8, Type: "OrderDelivered", Version: 1},
		{ID: 9, Type: "StockReserved", Version: 1},
		{ID: 10, Type: "StockRejected", Version: 1},
		{ID: 11, Type: "StockReleased", Version: 1},
		{ID: 12, Type: "OrderScreened", Version: 1},
		{ID: 13, Type: "ShipmentScheduled", Version: 1},
		{ID: 14, Type: "ShipmentRejected", Version: 1},
		{ID: 15, Type: "ShipmentCancelled", Version: 1},
		{ID: 16, Type: "PaymentTaken", Version: 1},
		{ID: 17, Type: "PaymentDeclined", Version: 1},
		{ID: 18, Type: "PaymentRefunded", Version: 1},
		{ID: 19, Type: "PaymentVoided", Version: 1},
		{ID: 20, Type: "UndoStuck", Version: 1},
		{ID: 21, Type: "OrderConfirmed", Version: 2},
		{ID: 22, Type: "OrderShipped", Version: 2},
		{ID: 23, Type: "OrderDelivered", Version: 2},
	}
}

// read returns an embedded file. A line of the table without its file is a fault of the build, which the
// tests of this package find before anybody runs it.
func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("schemas: %v", err))
	}
	return string(text)
}
