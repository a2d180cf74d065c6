package pgserver

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Superuser is the role that initdb makes; its password is in the folder.
const Superuser = "postgres"

// Config says where a server lives and how it differs from the defaults.
type Config struct {
	// Dir is the folder of this server, made when missing. Required.
	Dir string
	// Port is the TCP port on 127.0.0.1. With 0 the server chooses a free one at
	// its first start and keeps it while the *Server lives; use it where only
	// the socket matters, because another process cannot know the port.
	Port int
	// Bin is the folder that holds initdb and postgres. When empty they are
	// looked for on the machine, and fetched when there are none (see [Find]).
	Bin string
	// Cache is where fetched binaries are kept; when empty a folder chorus in the
	// user's cache folder, for root in /var/cache.
	Cache string
	// Repository is the Maven repository to fetch from; Maven Central when empty.
	Repository string
	// Template is a folder made by [Init] whose cluster and password are copied
	// instead of running initdb, which takes a second or more.
	Template string
	// Logger is told of the slow steps of a first start; nobody when nil.
	Logger *slog.Logger
	// Log is the file the server's messages are appended to; postgres.log in
	// Dir when empty.
	Log string
	// Settings override the server's settings (postgresql.conf).
	Settings map[string]string
	// NoSync switches fsync off: a crash of the machine, not of the server,
	// then destroys the cluster. For tests only.
	NoSync bool
}

func (c Config) data() string         { return filepath.Join(c.Dir, "data") }
func (c Config) passwordFile() string { return filepath.Join(c.Dir, "password") }

func (c Config) log() string {
	if c.Log != "" {
		return c.Log
	}
	return filepath.Join(c.Dir, "postgres.log")
}

// socketDir returns the folder of the Unix socket: inside Dir, or, where that
// path would pass the system's limit (104 bytes on macOS, 108 on Linux), a
// folder under the temporary directory whose name is derived from Dir.
func (c Config) socketDir() string {
	const limit = 103
	inside := filepath.Join(c.Dir, "socket")
	if len(inside)+len("/.s.PGSQL.65535.lock") <= limit {
		return inside
	}
	sum := sha256.Sum256([]byte(c.Dir))
	return filepath.Join(os.TempDir(), "chorus-pg-"+hex.EncodeToString(sum[:6]))
}

// check returns the config with Dir made absolute, or what is wrong with it.
func (c Config) check() (Config, error) {
	var faults []error
	if c.Dir == "" {
		faults = append(faults, errors.New("no folder given"))
	}
	if c.Port < 0 || c.Port > 65535 {
		faults = append(faults, fmt.Errorf("port %d is outside 0 to 65535", c.Port))
	}
	for name, value := range c.Settings {
		if name == "" || strings.ContainsAny(name, " \t\r\n='") || strings.ContainsAny(value, "\r\n") {
			faults = append(faults, fmt.Errorf("setting %q = %q cannot be written to a configuration file", name, value))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return c, fmt.Errorf("postgres configuration: %w", err)
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, fmt.Errorf("postgres folder %s: %w", c.Dir, err)
	}
	c.Dir = dir
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// DSN returns the superuser's URL for database postgres over the Unix socket,
// for a process other than the one that runs the server. Port must not be 0. The
// error is [fs.ErrNotExist] until the folder has been initialised.
func (c Config) DSN() (string, error) { return c.dsn(true, c.superuser) }

// TCP is DSN over 127.0.0.1 instead of the socket.
func (c Config) TCP() (string, error) { return c.dsn(false, c.superuser) }

// Passwordless is DSN without the password, which the folder does not have before the first start: it names the server.
func (c Config) Passwordless() (string, error) {
	return c.dsn(true, func() (*url.Userinfo, error) { return url.User(Superuser), nil })
}

func (c Config) superuser() (*url.Userinfo, error) {
	password, err := os.ReadFile(c.passwordFile())
	if err != nil {
		return nil, fmt.Errorf("read the superuser's password: %w", err)
	}
	return url.UserPassword(Superuser, strings.TrimSpace(string(password))), nil
}

func (c Config) dsn(socket bool, login func() (*url.Userinfo, error)) (string, error) {
	c, err := c.check()
	if err != nil {
		return "", err
	}
	if c.Port == 0 {
		return "", fmt.Errorf("URL of the server in %s: its port is not known to this process", c.Dir)
	}
	user, err := login()
	if err != nil {
		return "", err
	}
	u := url.URL{Scheme: "postgres", User: user, Path: "/postgres"}
	query := url.Values{"sslmode": {"disable"}}
	if socket {
		query.Set("host", c.socketDir())
		query.Set("port", strconv.Itoa(c.Port))
	} else {
		u.Host = "127.0.0.1:" + strconv.Itoa(c.Port)
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
