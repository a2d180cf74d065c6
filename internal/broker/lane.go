package broker

import (
	"context"
	"time"
)

// Partition is what a claim has to know about an assigned partition.
type Partition struct {
	Topic     string
	TopicID   [16]byte
	Partition int32
	Start     int64 // offset of the earliest record that is still there
	End       int64 // offset that the next record to be written gets; read before the claim
}

// Lane is a claimed partition. Handle, Rest, Next and Close are called by one goroutine, Drain and Trouble by any.
type Lane interface {
	// Next is the offset to read from, and after Handle the one to commit.
	Next() int64
	// Handle makes records take effect; they are in offset order. Any error ends the lane: it is closed, and the partition claimed again after a pause, if it
	// is still this member's.
	Handle(ctx context.Context, records []Record) error
	// Rest tells the lane that nothing has come for a while, by the goroutine that calls Handle: it may give up what it can get again.
	Rest()
	// Drain asks Handle to finish what it is doing and wait for nothing else.
	Drain()
	// Trouble is since when Handle waits, and for what; nil while it works.
	Trouble() (since time.Time, err error)
	Close()
}

// Claim makes this process the owner of a partition, or says why not; then it is tried again.
type Claim func(ctx context.Context, p Partition) (Lane, error)

// The states of an assigned partition.
const (
	Claiming = "claiming" // not claimed yet, or refused: see Err
	Running  = "running"
	Waiting  = "waiting" // claimed, and waiting for what Err says
	Draining = "draining"
)

// Status is the state of one assigned partition.
type Status struct {
	Topic     string
	Partition int32
	State     string
	Next      int64  // offset of the first record that is not handled; -1 until claimed
	Err       string // why it does not run
	Since     time.Time
}
