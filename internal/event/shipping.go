package event

// ShipmentScheduled says that a carrier has booked the shipment.
type ShipmentScheduled struct {
	Shipment string // the carrier's reference
	Carrier  string
}

// ShipmentRejected says that no carrier takes the order. It closes shipment and payment.
type ShipmentRejected struct{ Reason string }

// ShipmentCancelled closes the shipment. Shipment is empty when there was none.
type ShipmentCancelled struct{ Shipment string }

func (ShipmentScheduled) Type() Type { return "ShipmentScheduled" }
func (ShipmentRejected) Type() Type  { return "ShipmentRejected" }
func (ShipmentCancelled) Type() Type { return "ShipmentCancelled" }
