package pgserver

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// confName is the file of our settings in the data folder. postgresql.conf,
// where initdb keeps what it found out about the machine, includes it; ALTER
// SYSTEM still wins over it.
const confName = "chorus.conf"

// settings returns what the server runs with. D3 asks for room for pools times
// replicas and for timeouts of a few seconds; the memory target of D13 asks for
// small buffers.
func (c Config) settings() map[string]string {
	s := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(c.Port),
		"unix_socket_directories": c.socketDir(),
		"password_encryption":     "scram-sha-256",
		"max_connections":         "300",
		"shared_buffers":          "64MB",
		// An order writes some 40 kB of WAL. With the default of 1 GB a loaded cluster would
		// checkpoint twice a minute and write every page in full again after each.
		"max_wal_size":       "3GB",
		"synchronous_commit": "on",
		"timezone":           "UTC",
		"log_timezone":       "UTC",
		"log_line_prefix":    "%m [%p] %q%u@%d %a ",
		"jit":                "off",

		"wal_level":             "logical",
		"max_wal_senders":       "20",
		"max_replication_slots": "20",
		// A consumer of the WAL that is gone for good must not fill the disk:
		// beyond this its slot is lost, which cdc reports (D8).
		"max_slot_wal_keep_size": "4GB",
		// A frozen cdc is given up after this, and its standby takes over.
		"wal_sender_timeout": "5s",
		// A frozen owner of a partition must not hold row locks for longer (D6).
		"idle_in_transaction_session_timeout": "10s",
		// Sessions of killed processes are noticed while they run a query, too.
		"client_connection_check_interval": "1s",
	}
	if c.NoSync {
		s["fsync"] = "off"
		s["full_page_writes"] = "off"
	}
	maps.Copy(s, c.Settings)
	return s
}

// writeSettings replaces the settings file as a whole, so that a crash leaves
// the old or the new one.
func (c Config) writeSettings(owner account) error {
	all := c.settings()
	var b strings.Builder
	b.WriteString("# Written at every start; use ALTER SYSTEM for lasting changes.\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(all[name], "'", "''"))
	}
	path := filepath.Join(c.data(), confName)
	if err := writeFile(path, b.String(), owner); err != nil {
		return fmt.Errorf("write settings %s: %w", path, err)
	}
	return nil
}

// writeFile puts content at path with mode 0600, by way of a rename.
func writeFile(path, content string, owner account) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		return err
	}
	if err := owner.own(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
