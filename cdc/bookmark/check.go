package bookmark

import (
	"fmt"

	"chorus/cdc/wal"
)

// Server is where a slot is.
type Server struct {
	System    string
	Timeline  int32
	Slot      string
	Confirmed wal.LSN // of the slot
	End       wal.LSN // of the log
	// Left is where the server's history left the position's timeline; 0 when
	// it never was on it. It is asked for only when the timelines differ.
	Left wal.LSN
}

// Check says why rows would be missing, or others left out for them, if the
// source went on from the position on this server; nil when it may.
func (p Position) Check(s Server) error {
	switch {
	case p.System != s.System:
		return fmt.Errorf("position %s is of the server with system identifier %s, and this is %s", p.End, p.System, s.System)
	case p.Slot != s.Slot:
		return fmt.Errorf("position %s is of slot %s, and this is %s", p.End, p.Slot, s.Slot)
	case p.Timeline != s.Timeline && s.Left == 0:
		return fmt.Errorf("position %s is of timeline %d, which is not in the history of this server's, %d", p.End, p.Timeline, s.Timeline)
	case p.Timeline != s.Timeline && max(p.End, p.Commit) > s.Left:
		return fmt.Errorf("position %s is of timeline %d, and this server left that at %s: it has lost transactions that are in Kafka, and has others in their place",
			max(p.End, p.Commit), p.Timeline, s.Left)
	case max(p.End, p.Commit) > s.End:
		return fmt.Errorf("position %s is beyond the end of the server's log, %s: it has lost transactions that are in Kafka", max(p.End, p.Commit), s.End)
	case !p.First && s.Confirmed > p.End:
		// The slot is confirmed after the position is in Kafka, never before.
		return fmt.Errorf("slot %s is at %s, ahead of position %s: it was made anew or moved by somebody else, and rows in between may be missing", s.Slot, s.Confirmed, p.End)
	}
	return nil
}
