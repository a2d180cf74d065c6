package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// The version that is fetched when the machine has none.
const (
	fetchedVersion = embeddedpostgres.V17
	fetchedMajor   = 17
)

// fetch downloads PostgreSQL into the cache once and returns the folder of its
// programs. It unpacks beside the final folder and renames, so a crash or a
// full disk in the middle leaves no half installation that looks whole; when two
// processes fetch at once the second finds the first one's and drops its own.
// The download itself cannot be interrupted: when ctx ends it goes on alone.
func (c Config) fetch(ctx context.Context) (string, error) {
	cache, err := c.cache()
	if err != nil {
		return "", fmt.Errorf("find a folder to keep PostgreSQL in: %w", err)
	}
	final := filepath.Join(cache, fmt.Sprintf("postgresql-%s-%s-%s", fetchedVersion, runtime.GOOS, runtime.GOARCH))
	bin := filepath.Join(final, "bin")
	if there, err := exists(final); err != nil || there {
		return bin, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make the folder to keep PostgreSQL in: %w", err)
	}
	c.Logger.Info("fetching PostgreSQL, about 15 MB", "version", string(fetchedVersion), "to", cache)
	work, err := os.MkdirTemp(cache, "unpack-")
	if err != nil {
		return "", fmt.Errorf("make a folder to unpack PostgreSQL in: %w", err)
	}
	done := make(chan error, 1)
	go func() {
		defer os.RemoveAll(work)
		done <- c.unpack(work, final)
	}()
	select {
	case err := <-done:
		if err != nil {
			return "", fmt.Errorf("fetch PostgreSQL %s: %w", fetchedVersion, err)
		}
		return bin, nil
	case <-ctx.Done():
		return "", fmt.Errorf("fetch PostgreSQL %s: %w", fetchedVersion, context.Cause(ctx))
	}
}

// cache returns the folder for fetched programs. Root's own one is closed to the
// user that PostgreSQL runs as, so root uses the system's.
func (c Config) cache() (string, error) {
	if c.Cache != "" {
		return filepath.Abs(c.Cache)
	}
	if os.Geteuid() == 0 {
		return "/var/cache/chorus", nil
	}
	user, err := os.UserCacheDir()
	return filepath.Join(user, "chorus"), err
}

// unpack lets the library download and extract into work and moves the result
// to final.
//
// The library offers no way to do only that; it would go on with initdb, which
// fails for root and is not ours otherwise. It is stopped at the border by a
// data folder that it cannot clear: os.RemoveAll refuses a path that ends in a
// dot. An error that names this path therefore means that everything before
// went well.
func (c Config) unpack(work, final string) error {
	extracted := filepath.Join(work, "postgresql")
	border := filepath.Join(work, "border") + "/."
	config := embeddedpostgres.DefaultConfig().
		Version(fetchedVersion).
		Port(0). // it asks whether the port is free, of no use here
		CachePath(filepath.Join(work, "archive")).
		RuntimePath(extracted).
		DataPath(border).
		Logger(io.Discard)
	if c.Repository != "" {
		config = config.BinaryRepositoryURL(strings.TrimRight(c.Repository, "/"))
	}
	err := embeddedpostgres.NewDatabase(config).Start()
	if err == nil {
		return errors.New("the library started a server of its own")
	}
	if !strings.Contains(err.Error(), border) {
		return err
	}
	if err := os.Chmod(extracted, 0o755); err != nil {
		return err
	}
	if err := os.Rename(extracted, final); err != nil {
		if there, statErr := exists(final); statErr == nil && there {
			return nil
		}
		return err
	}
	return nil
}
