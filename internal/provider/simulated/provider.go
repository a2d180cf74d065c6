package simulated

import (
	"crypto/sha256"
	"encoding/hex"
)

// The providers' names, as they stand in URLs, in the ledger and in the log of calls.
const (
	Warehouse            = "warehouse"
	Bureau               = "bureau"
	CarrierDomestic      = "carrier-domestic"
	CarrierInternational = "carrier-international"
	PayStandard          = "pay-standard"
	PayHighValue         = "pay-highvalue"
	ShippingConfirmation = "shipping-confirmation"
	ReviewRequest        = "review-request"
	StatusUpdate         = "status-update"
)

// A provider is one company of the outside world.
type provider struct {
	name    string
	effects string // what it does, plural: the path segment
	prefix  string // of its references
	pays    bool   // keeps accounts
	body    func() body
}

func providers() []provider {
	reservation := func() body { return new(reservation) }
	screening := func() body { return new(screening) }
	shipment := func() body { return new(shipment) }
	charge := func() body { return new(charge) }
	message := func() body { return new(message) }
	return []provider{
		{name: Warehouse, effects: "reservations", prefix: "RES", body: reservation},
		{name: Bureau, effects: "screenings", prefix: "SCR", body: screening},
		{name: CarrierDomestic, effects: "shipments", prefix: "DOM", body: shipment},
		{name: CarrierInternational, effects: "shipments", prefix: "INT", body: shipment},
		{name: PayStandard, effects: "charges", prefix: "PAY", body: charge, pays: true},
		{name: PayHighValue, effects: "charges", prefix: "HVP", body: charge, pays: true},
		{name: ShippingConfirmation, effects: "messages", prefix: "SHC", body: message},
		{name: ReviewRequest, effects: "messages", prefix: "REV", body: message},
		{name: StatusUpdate, effects: "messages", prefix: "STU", body: message},
	}
}

// Names lists the providers, in the order in which an order meets them.
//
// Words in the input force an answer, in any case of letters: a customer whose name contains "fraud" scores 95 and
// "review" 70 at the bureau, "declined" is refused by the processors (402 insufficient_funds), "undeliverable" by the
// carriers (409 undeliverable), and a SKU that contains "missing" by the warehouse (409 out_of_stock).
func Names() []string {
	var names []string
	for _, p := range providers() {
		names = append(names, p.name)
	}
	return names
}

// reference is the id under which a provider knows an effect. It follows from the key, so it needs no counter, and no
// two keys share one.
func (p *provider) reference(key string) string {
	sum := sha256.Sum256([]byte(p.name + "\x00" + key))
	return p.prefix + "-" + hex.EncodeToString(sum[:10])
}

// Effects is the path segment of what a provider does, or empty for a provider that does not exist.
func Effects(name string) string {
	for _, p := range providers() {
		if p.name == name {
			return p.effects
		}
	}
	return ""
}

// Holds tells whether what a provider does can be taken back, so that it must not stay for an order that came to nothing. Who only reads, or
// passes a message on, holds nothing.
func Holds(name string) bool {
	switch Effects(name) {
	case "reservations", "shipments", "charges":
		return true
	}
	return false
}
