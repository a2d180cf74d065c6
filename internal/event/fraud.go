package event

// ScreeningVerdict is what the score means (D4): CLEAR below 50, REVIEW 50 to 89, REJECT
// from 90, by default; UNAVAILABLE when the bureau gave no answer.
type ScreeningVerdict string

const (
	Clear       ScreeningVerdict = "CLEAR"
	Review      ScreeningVerdict = "REVIEW"
	Reject      ScreeningVerdict = "REJECT"
	Unavailable ScreeningVerdict = "UNAVAILABLE"
)

// OrderScreened is the risk bureau's view of the order. Screening only reads, so it has no undo.
type OrderScreened struct {
	Score   int // 0 to 100; 0 when unavailable
	Verdict ScreeningVerdict
	Reason  string
}

func (OrderScreened) Type() Type { return "OrderScreened" }
