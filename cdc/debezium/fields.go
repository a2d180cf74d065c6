package debezium

// Fields are the columns that the router was told to use.
type Fields struct {
	ID, Key, Payload, RouteBy string
	Timestamp                 string // empty: a record has the time of the commit
}

// Fields names the router's columns.
func (c *Connector) Fields() Fields {
	r := &c.router
	return Fields{ID: r.id, Key: r.key, Payload: r.payload, RouteBy: r.routeBy, Timestamp: r.timestamp}
}

// Missing names the columns without which no row of the table can be published.
func (t *Table) Missing() []string {
	r, p := &t.c.router, &t.places
	var missing []string
	lacks := func(at int, column string) {
		if at < 0 && column != "" {
			missing = append(missing, column)
		}
	}
	lacks(p.id, r.id)
	lacks(p.key, r.key)
	lacks(p.payload, r.payload)
	lacks(p.routeBy, r.routeBy)
	lacks(p.timestamp, r.timestamp)
	for i, a := range r.additional {
		if !r.missingIgnored {
			lacks(p.additional[i], a.column)
		}
	}
	return missing
}
