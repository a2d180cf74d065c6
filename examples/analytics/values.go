package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/linkedin/goavro/v2"
)

// errUndecodable says that a value is at fault, now and for ever.
var errUndecodable = errors.New("value cannot be read")

// decoder reads values as docs/wire-format.md describes them: Avro behind a zero byte and a schema id, or JSON. It reads each value with the schema that it was written with, and
// keeps the schemas that it has fetched, so a registry that is away stops nothing that is known.
type decoder struct {
	registry string
	http     *http.Client

	mu      sync.Mutex
	schemas map[uint32]*goavro.Codec // guarded by mu: partitions are handled at once
}

func newDecoder(registry string) *decoder {
	return &decoder{registry: strings.TrimRight(registry, "/"), http: &http.Client{Timeout: 5 * time.Second}, schemas: map[uint32]*goavro.Codec{}}
}

// money is what two facts have in common.
type money struct {
	amount   int64 // minor units
	currency string
}

// money reads a value with an amount and a currency. An error that is not errUndecodable is the registry's.
func (d *decoder) money(ctx context.Context, value []byte) (money, error) {
	switch {
	case len(value) > 0 && value[0] == '{':
		var m struct {
			Amount   *int64
			Currency string
		}
		if err := json.Unmarshal(value, &m); err != nil || m.Amount == nil {
			return money{}, fmt.Errorf("%w: no amount: %v", errUndecodable, err)
		}
		return sound(money{*m.Amount, m.Currency})
	case len(value) < 5 || value[0] != 0:
		return money{}, fmt.Errorf("%w: neither framed Avro nor JSON", errUndecodable)
	}
	schema, err := d.schema(ctx, binary.BigEndian.Uint32(value[1:5]))
	if err != nil {
		return money{}, err
	}
	native, rest, err := schema.NativeFromBinary(value[5:])
	if err != nil || len(rest) > 0 {
		return money{}, fmt.Errorf("%w: %d bytes left over: %v", errUndecodable, len(rest), err)
	}
	fields, _ := native.(map[string]any)
	amount, isLong := fields["amount"].(int64)
	currency, _ := fields["currency"].(string)
	if !isLong {
		return money{}, fmt.Errorf("%w: no amount", errUndecodable)
	}
	return sound(money{amount, currency})
}

func sound(m money) (money, error) {
	if m.amount < 0 || len(m.currency) != 3 {
		return money{}, fmt.Errorf("%w: amount %d in %q", errUndecodable, m.amount, m.currency)
	}
	return m, nil
}

// schema returns the schema with this id. One that the registry does not have makes the value undecodable.
func (d *decoder) schema(ctx context.Context, id uint32) (*goavro.Codec, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.schemas[id]; s != nil {
		return s, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/schemas/ids/%d", d.registry, id), nil)
	if err != nil {
		return nil, fmt.Errorf("ask for schema %d: %w", id, err)
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for schema %d: %w", id, err)
	}
	defer resp.Body.Close()
	var answer struct{ Schema string }
	switch err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&answer); {
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%w: the registry has no schema %d", errUndecodable, id)
	case resp.StatusCode != http.StatusOK || err != nil:
		return nil, fmt.Errorf("ask for schema %d: %s, %v", id, resp.Status, err)
	}
	s, err := goavro.NewCodec(answer.Schema)
	if err != nil {
		return nil, fmt.Errorf("%w: schema %d: %v", errUndecodable, id, err)
	}
	d.schemas[id] = s
	return s, nil
}
