package event

// StockReserved says that the goods are held and the warehouse has confirmed it.
type StockReserved struct{ Reservation string }

// StockRejected says that the order gets no stock. It closes stock, shipment and payment.
type StockRejected struct{ Reason string }

// StockReleased closes the stock. Reservation is empty when there was none.
type StockReleased struct{ Reservation string }

func (StockReserved) Type() Type { return "StockReserved" }
func (StockRejected) Type() Type { return "StockRejected" }
func (StockReleased) Type() Type { return "StockReleased" }
