// Package gap says why a fact that is awaited has not come: which gap it fell into, answered from what each party keeps (G10).
//
// A fact goes through four hands. Its owner reads the fact that sets it off and records a verdict; carries out what that asks for;
// commits the new fact in its outbox; cdc publishes it. So a fact that is missing is
//
//   - not published: it stands in its owner's outbox and in no topic;
//   - not consumed: what sets it off is in the topic, and its owner has no verdict on it;
//   - failed: its owner set that aside as a dead letter, or its call to the outside fails or is stuck;
//   - overdue: its owner has taken it up, nothing has failed, and its time is over;
//
// and until then in progress, which is no gap. The package asks nobody: whoever calls it has gathered the evidence.
package gap

import (
	"fmt"
	"slices"
	"time"

	"chorus/internal/choreography"
	"chorus/internal/decision"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/intent"
	"chorus/internal/tracker"
)

// Kind is which gap it is.
type Kind string

// The kinds.
const (
	NotPublished Kind = "not published"
	NotConsumed  Kind = "not consumed"
	Failed       Kind = "failed"
	Overdue      Kind = "overdue"
	InProgress   Kind = "in progress"
)

// Gap is why a fact has not come.
type Gap struct {
	Kind  Kind              `json:"kind"`
	Who   event.Participant `json:"who"` // has to do something about it: a participant, the tracker, or cdc
	Why   string            `json:"why"`
	Since time.Time         `json:"since"`
}

// CDC is who publishes.
const CDC event.Participant = "cdc"

// Evidence is what is known about a wait.
type Evidence struct {
	Wait  tracker.Wait
	Facts []tracker.Fact // of the order, as far as they are in the topics and read

	Silence  string                       // why the owner did not answer; the next three are then empty
	Verdicts map[event.ID]inspect.Verdict // the owner's
	Stated   []inspect.Stated             // what stands in its outbox about the order
	Calls    []intent.CallView            // the owner's

	// Observed is what an outside observer sees of the owner's consumer in a partition: the next offset that it has committed. Asked only when the owner is silent.
	Observed func(topic string, partition int32) (next int64, ok bool)
	// Viewed is the tracker's own verdict on a fact. Asked, as is the next, only when a fact that was stated is not in the view.
	Viewed func(id event.ID) inspect.Verdict
	// Unread is how many records of the owner's topic the tracker has not read; -1 when that is not known.
	Unread func() int64

	Now time.Time
}

// Classify says which gap it is.
func Classify(e Evidence) Gap {
	for _, find := range []func(Evidence) (Gap, bool){unpublished, dead, unconsumed, failing} {
		if g, found := find(e); found {
			return g
		}
	}
	g := Gap{Kind: InProgress, Who: e.Wait.Owner, Since: e.Wait.Since, Why: fmt.Sprintf("%s has taken up all that it needs", e.Wait.Owner)}
	if call, open := e.call(); open {
		g.Why, g.Since = "the call to "+call.Provider+" is under way", call.CreatedAt
	}
	if e.Silence != "" {
		g.Why = fmt.Sprintf("%s does not answer: %s; how far it is nobody knows", e.Wait.Owner, e.Silence)
	}
	if e.Now.After(e.Wait.Until) {
		g.Kind, g.Why = Overdue, g.Why+"; its time is over"
	}
	return g
}

// triggers are the facts that lead the owner to what is awaited, the last first: the last is the likeliest to be missing.
func (e Evidence) triggers() (found []tracker.Fact) {
	on := map[event.Type]bool{}
	for _, r := range choreography.Table() {
		if r.Who == e.Wait.Owner && slices.ContainsFunc(r.States, func(t event.Type) bool { return slices.Contains(e.Wait.Expects, t) }) {
			on[r.On] = true
		}
	}
	for _, f := range e.Facts {
		if on[f.Type] && slices.Contains(choreography.StatedBy(f.Type, e.Wait.Owner), f.Owner) {
			found = append(found, f)
		}
	}
	slices.Reverse(found)
	return found
}

// unpublished: the owner's outbox has a fact that the view has not, either what is awaited or that the step got stuck.
func unpublished(e Evidence) (Gap, bool) {
	for _, s := range e.Stated {
		if !slices.Contains(e.Wait.Expects, s.Type) && s.Type != "UndoStuck" {
			continue
		}
		if slices.ContainsFunc(e.Facts, func(f tracker.Fact) bool { return f.ID == s.ID }) {
			continue
		}
		return missing(e, s), true
	}
	return Gap{}, false
}

// missing tells who keeps a stated fact from the view: cdc, or the tracker that has not read so far, or could not.
func missing(e Evidence, s inspect.Stated) Gap {
	g := Gap{Kind: NotPublished, Who: CDC, Since: s.OccurredAt}
	if v := e.Viewed(s.ID); v.Verdict == "dead" {
		return Gap{Failed, tracker.Name, aside(tracker.Name, s.Type, v), v.HandledAt}
	}
	switch n := e.Unread(); {
	case n > 0:
		g.Kind, g.Who = NotConsumed, tracker.Name
		g.Why = fmt.Sprintf("%s has committed %s, and the tracker has %d records of %s to read", e.Wait.Owner, s.Type, n, e.Wait.Owner.Topic())
	case n < 0:
		g.Why = fmt.Sprintf("%s has committed %s, and nobody has read it in %s; the broker cannot be asked", e.Wait.Owner, s.Type, e.Wait.Owner.Topic())
	default:
		g.Why = fmt.Sprintf("%s has committed %s in its outbox, and it is not in %s", e.Wait.Owner, s.Type, e.Wait.Owner.Topic())
	}
	return g
}

// dead: the owner has set a fact aside that it needs.
func dead(e Evidence) (Gap, bool) {
	for _, f := range e.triggers() {
		if v := e.Verdicts[f.ID]; v.Verdict == "dead" {
			return Gap{Failed, e.Wait.Owner, aside(e.Wait.Owner, f.Type, v), v.HandledAt}, true
		}
	}
	return Gap{}, false
}

// aside tells of a dead fact. Without a letter it was discarded.
func aside(who event.Participant, fact event.Type, v inspect.Verdict) string {
	if v.Letter == 0 {
		return fmt.Sprintf("%s set %s aside, and the dead letter is closed: %s", who, fact, v.Why)
	}
	return fmt.Sprintf("%s set %s aside as dead letter %s/%d: %s", who, fact, who, v.Letter, v.Why)
}

// unconsumed: what the owner needs is in the topic, and it has no verdict on it. Of an owner that does not answer its commits tell.
func unconsumed(e Evidence) (Gap, bool) {
	for _, f := range e.triggers() {
		at := fmt.Sprintf("%s, which is in %s/%d at %d", f.Type, f.Topic, f.Partition, f.Offset)
		if e.Silence == "" {
			if e.Verdicts[f.ID].Verdict == "" {
				return Gap{NotConsumed, e.Wait.Owner, fmt.Sprintf("%s has not handled %s", e.Wait.Owner, at), f.RecordedAt}, true
			}
			continue
		}
		if next, ok := e.Observed(f.Topic, f.Partition); ok && next <= f.Offset {
			return Gap{NotConsumed, e.Wait.Owner, fmt.Sprintf("%s has not handled %s, and does not answer: %s", e.Wait.Owner, at, e.Silence), f.RecordedAt}, true
		}
	}
	return Gap{}, false
}

// failing: the call that leads to what is awaited has failed at least once, cannot go on, or is stuck.
func failing(e Evidence) (Gap, bool) {
	c, open := e.call()
	if !open {
		return Gap{}, false
	}
	g := Gap{Kind: Failed, Who: e.Wait.Owner, Since: c.CreatedAt}
	if len(c.Attempts) > 0 {
		g.Since = c.Attempts[0].StartedAt
	}
	switch {
	case c.Outcome == decision.Stuck:
		g.Why = fmt.Sprintf("the %s at %s is stuck: %s", word(c), c.Provider, c.Result)
		if c.EndedAt != nil {
			g.Since = *c.EndedAt
		}
		return g, true
	case c.Problem != "":
		g.Why = fmt.Sprintf("the %s at %s cannot go on: %s", word(c), c.Provider, c.Problem)
		return g, true
	}
	for _, a := range slices.Backward(c.Attempts) {
		if a.EndedAt == nil || a.Result == decision.OK || a.Result == decision.Absent {
			continue
		}
		said := a.Error
		if a.Status != 0 {
			said = fmt.Sprint(a.Status)
		}
		if a.Reason != "" {
			said += " " + a.Reason
		}
		g.Why = fmt.Sprintf("the %s at %s fails: exchange %d ended as %s, %s", word(c), c.Provider, a.N, a.Result, said)
		if c.DueAt != nil {
			g.Why += "; it goes on at " + c.DueAt.UTC().Format(time.TimeOnly)
		}
		return g, true
	}
	return Gap{}, false
}

// call is the owner's last call for the step that has not brought its fact: still open, or stuck.
func (e Evidence) call() (intent.CallView, bool) {
	for _, c := range slices.Backward(e.Calls) {
		if c.Step == e.Wait.Step && c.Step != "" && (c.EndedAt == nil || c.Outcome == decision.Stuck) {
			return c, true
		}
	}
	return intent.CallView{}, false
}

func word(c intent.CallView) string {
	if c.Op == decision.Undo {
		return "undo of the " + string(c.Step)
	}
	return string(c.Step)
}
