// Package explore runs the shipped decision functions of all five participants, and decision.Call for their calls, through
// every interleaving that one order can meet, and checks in every state what must hold (D5, G8, G9, G10). It stores
// and sends nothing. Its tests are the proof; run them without the race detector.
//
// # A world
//
// A world is what has been committed: each participant's state (as the JSON that its database keeps), its topic, how
// far it has read the others' topics, and for each step its calls, the provider's ledger and inventory's shelf. A step from
// world to world is one transaction at a door, or one exchange with a provider:
//
//   - a participant reads the next fact that it declares in choreography, from any topic;
//   - a call makes its next exchange: ok, refused (and recorded or not), busy, done but the answer is lost, lost without
//     effect, lost and landing at any later moment; a look-up tells the ledger's truth, or is busy, or lost; a cancel by
//     key takes back or bars, or is lost before or after; an undo likewise; the deadline passes before any attempt;
//   - a call's end goes through its owner's door;
//   - the customer cancels, the shop ships and delivers, the order's timers come (one of them twice), at any moment;
//   - a person resolves a stuck step, having put the provider's ledger right, or has it tried again, at any moment.
//
// In between anything may crash: a transaction that did not commit is a step not yet taken, and an exchange whose
// answer was not written down is one of the lost ones.
//
// # What is left out, and why that is no loss
//
//   - Facts that the reader does not declare are passed over: its door ignores them without a look.
//   - Redelivery, and a restart from an earlier offset, lead from a world to itself: the inbox has the ids. That ids
//     are different is checked of every fact. With Scenario.NoInbox redelivery is explored for real.
//   - A participant whose step is closed, or whose order has ended, reads nothing more: it ignores every fact, which is
//     checked at the end of every run for every such state and every fact.
//   - Reasons are one and the same text, customers and amounts are fixed: no rule looks at them but for "is there one".
//   - Counts of exchanges that a call will not look at again are dropped, and so is a lost attempt under a key that the
//     provider has seen since: it can only be replayed.
//   - Time stands still and timers come at any moment, which is more than any clock allows.
//   - A score for REVIEW differs from one for CLEAR in the processor alone, so the largest scenario leaves it out and a
//     scenario of its own has it. So it is with an order whose total is zero, and with providers that give no reasons.
//
// One order is enough: participants share nothing between orders but inventory's counts, which a hold sees as "enough" or
// "too few", both of which are tried.
//
// # Scenarios
//
// TestEveryInterleaving lists them. "everything" is the full product of all providers misbehaving in every way with the
// customer, the shop, the timers and people acting at any moment. None is cut short: reaching Scenario.Cap is a failure.
// The properties are in judge.go, for each participant's own log in look, and for how orders end in ghost.go.
package explore
