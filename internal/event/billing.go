package event

// PaymentTaken says that the order's total was charged.
type PaymentTaken struct {
	Payment   string // the processor's reference, empty for a zero total
	Processor string
	Amount    int64 // minor units
	Currency  string
}

// PaymentDeclined says that nothing was charged and nothing will be. It closes the payment.
type PaymentDeclined struct{ Reason string }

// PaymentRefunded says that what was charged has been paid back in full. It closes the payment.
type PaymentRefunded struct {
	Payment  string
	Amount   int64
	Currency string
	Reason   string
}

// PaymentVoided says that a cancellation came before any charge. It closes the payment.
type PaymentVoided struct{ Reason string }

func (PaymentTaken) Type() Type    { return "PaymentTaken" }
func (PaymentDeclined) Type() Type { return "PaymentDeclined" }
func (PaymentRefunded) Type() Type { return "PaymentRefunded" }
func (PaymentVoided) Type() Type   { return "PaymentVoided" }
