package event

import "slices"

// Catalogue lists one zero value of every fact, by owner and then in the order of an order's life.
// UndoStuck stands last: every owner of a step may state it.
func Catalogue() []Fact {
	return []Fact{
		OrderPlaced{}, OrderCancellationRequested{}, OrderConfirmed{}, OrderRejected{}, OrderFailed{},
		OrderCancelled{}, OrderShipped{}, OrderDelivered{},
		StockReserved{}, StockRejected{}, StockReleased{},
		OrderScreened{},
		ShipmentScheduled{}, ShipmentRejected{}, ShipmentCancelled{},
		PaymentTaken{}, PaymentDeclined{}, PaymentRefunded{}, PaymentVoided{},
		UndoStuck{},
	}
}

// Known reports whether t is a type of the catalogue.
func Known(t Type) bool {
	return slices.ContainsFunc(Catalogue(), func(f Fact) bool { return f.Type() == t })
}
