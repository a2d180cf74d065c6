package participant

import (
	"context"
	"log/slog"

	"chorus/internal/codec"
	"chorus/internal/codec/registry"
)

// OpenCodec returns the codec of a cluster. Without a registry it writes under the embedded schemas' fixed ids; with one it
// asks once for the ids, waiting for a registry that is away, and later only for ids that it meets and does not know.
func OpenCodec(ctx context.Context, log *slog.Logger, address string, format codec.Format) (*codec.Codec, error) {
	if address == "" {
		return codec.New(nil, format)
	}
	client, err := registry.New(address, log)
	if err != nil {
		return nil, err
	}
	ids, err := client.IDs(ctx)
	if err != nil {
		return nil, err
	}
	c, err := codec.New(ids, format)
	if err != nil {
		return nil, err
	}
	c.LearnFrom(client.Text)
	return c, nil
}
