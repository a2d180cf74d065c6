package intent

import (
	"errors"
	"fmt"
	"time"
)

// Config is how patient the calls of a service are.
type Config struct {
	Tries         int           `default:"4" help:"Attempts of a call before it counts as failed."`
	Undos         int           `default:"25" help:"Attempts of an undo before a person has to help."`
	Asks          int           `default:"5" help:"Look-ups by key of an unknown outcome before a person has to help."`
	Ends          int           `default:"6" help:"Cancels by key before a person has to help."`
	Backoff       time.Duration `default:"2s" help:"Wait after the first attempt; doubled after each."`
	BackoffCap    time.Duration `default:"8s" help:"Longest wait between attempts, and between cancels by key."`
	UndoCap       time.Duration `default:"30s" help:"Longest wait between attempts of an undo."`
	AskAfter      time.Duration `default:"200ms" help:"Wait before the first look-up by key; doubled after each."`
	AskCap        time.Duration `default:"4s" help:"Longest wait between look-ups."`
	RetryAfterCap time.Duration `default:"1m" help:"Longest wait that a provider may ask for."`
	Poll          time.Duration `default:"250ms" help:"How often to look for due calls that no notification announced."`
	Silence       time.Duration `default:"10s" help:"How long the listener for notifications may hear nothing before it must prove that it is not deaf, and how long the proof may take."`
	Rest          time.Duration `default:"5s" help:"How long a call rests that cannot go on by itself, before it is looked at again."`
	LeaseMargin   time.Duration `default:"3s" help:"How much longer than an exchange's timeout a call is leased."`
	Grace         time.Duration `default:"5s" help:"How long exchanges under way may go on when the process stops."`
}

// Defaults are the figures of D7.
func Defaults() Config {
	return Config{
		Tries: 4, Undos: 25, Asks: 5, Ends: 6,
		Backoff: 2 * time.Second, BackoffCap: 8 * time.Second, UndoCap: 30 * time.Second,
		AskAfter: 200 * time.Millisecond, AskCap: 4 * time.Second,
		RetryAfterCap: time.Minute, Poll: 250 * time.Millisecond, Silence: 10 * time.Second, Rest: 5 * time.Second,
		LeaseMargin: 3 * time.Second, Grace: 5 * time.Second,
	}
}

func (c Config) check() error {
	var faults []error
	for name, n := range map[string]int{"tries": c.Tries, "undos": c.Undos, "asks": c.Asks, "ends": c.Ends} {
		if n < 1 {
			faults = append(faults, fmt.Errorf("%s: %d is less than 1", name, n))
		}
	}
	for name, d := range map[string]time.Duration{
		"backoff": c.Backoff, "backoff cap": c.BackoffCap, "undo cap": c.UndoCap, "ask after": c.AskAfter, "ask cap": c.AskCap,
		"retry-after cap": c.RetryAfterCap, "poll": c.Poll, "silence": c.Silence, "rest": c.Rest, "lease margin": c.LeaseMargin, "grace": c.Grace,
	} {
		if d <= 0 {
			faults = append(faults, fmt.Errorf("%s: %s is not above 0", name, d))
		}
	}
	if c.BackoffCap < c.Backoff || c.UndoCap < c.Backoff || c.AskCap < c.AskAfter {
		faults = append(faults, errors.New("a cap is shorter than the first wait"))
	}
	return errors.Join(faults...)
}
