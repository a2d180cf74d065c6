package tools

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"time"

	"chorus/internal/broker"
	"chorus/internal/choreography"
)

const (
	aliveWithin = 5 * time.Second        // for the question whether somebody is there; once they are, a page of states may take longer
	aliveAgain  = 200 * time.Millisecond // while a process is being started again
)

// answer fails when somebody whom verify must read does not answer at all, as a process that is frozen. One that is down is given the
// same time to be started again.
func (a addresses) answer(ctx context.Context, topics bool) error {
	ctx, cancel := context.WithTimeout(ctx, aliveWithin)
	defer cancel()
	names := []string{"front", "providers"}
	for _, who := range choreography.Participants() {
		names = append(names, string(who))
	}
	faults := make([]error, len(names)+1)
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { faults[i] = a.alive(ctx, name) })
	}
	if topics {
		wg.Go(func() { faults[len(names)] = a.kafkaAlive(ctx) })
	}
	wg.Wait()
	return errors.Join(faults...)
}

// alive asks for anything: an answer is one, of whatever status but that of a process that is still starting.
func (a addresses) alive(ctx context.Context, name string) error {
	base, err := a.url(name)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/inspect/states?after=0&limit=1", nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", name, err)
	}
	if name == "front" {
		name = "console"
	}
	client := newClient(base).http
	for {
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusServiceUnavailable {
				return nil
			}
			err = errNotReady
		}
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, errNotReady) || sleep(ctx, aliveAgain) != nil {
			return fmt.Errorf("%s does not answer: %s", name, silence(err))
		}
	}
}

var errNotReady = errors.New("it is not ready")

// kafkaAlive asks the brokers before a client is let loose on them that would try for ever.
func (a addresses) kafkaAlive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, aliveWithin)
	defer cancel()
	brokers, err := a.brokers()
	if err != nil {
		return err
	}
	client, err := broker.NewClient(brokers)
	if err != nil {
		return fmt.Errorf("make a Kafka client: %w", err)
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return fmt.Errorf("the Kafka brokers do not answer: %s", silence(err))
	}
	return nil
}
