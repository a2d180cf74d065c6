package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"chorus/internal/pgserver"
)

// start starts a server named name in this process's folder.
func start(name string) (*pgserver.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	place, err := folder()
	if err != nil {
		return nil, err
	}
	from, bin, err := template(ctx)
	if err != nil {
		return nil, fmt.Errorf("make the template: %w", err)
	}
	return pgserver.Start(ctx, pgserver.Config{
		Dir:      filepath.Join(place.dir, name),
		Bin:      bin,
		Template: from,
		NoSync:   true,
		Settings: map[string]string{
			// Parallel tests of cdc: many slots at a time.
			"max_wal_senders":       "100",
			"max_replication_slots": "100",
		},
	})
}

// base returns the folder of all test processes of this user. In the shared
// temporary directory a stranger's folder of this name must not be trusted.
func base() (string, error) {
	dir := filepath.Join(os.TempDir(), "chorus-pgtest-"+strconv.Itoa(os.Geteuid()))
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(stat.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s belongs to somebody else", dir)
	}
	return dir, nil
}

// cleaner waits for the end of the test process, which closes its input, then
// ends servers that are left and removes the folder. A shell outlives panics,
// os.Exit and SIGKILL of the tests; nothing in the test process does.
const cleaner = `cat >/dev/null
for try in 1 2 3 4 5 6 7 8 9 10; do
	for file in "$1"/*/data/postmaster.pid; do
		[ -f "$file" ] && kill -QUIT "$(head -n 1 "$file")" 2>/dev/null
	done
	rm -rf "$1" && exit
	sleep 0.2
done`

// place is this process's folder. While input is open the cleaner waits.
type place struct {
	dir   string
	input *os.File
}

// folder makes this process's folder and sets the cleaner on it, once.
var folder = sync.OnceValues(func() (place, error) {
	parent, err := base()
	if err != nil {
		return place{}, err
	}
	dir, err := os.MkdirTemp(parent, "run-")
	if err != nil {
		return place{}, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // the server's user passes through
		return place{}, err
	}
	// No other process has the write end, so it is closed when this one ends.
	read, write, err := os.Pipe()
	if err != nil {
		return place{}, err
	}
	defer read.Close()
	cmd := exec.Command("sh", "-c", cleaner, "sh", dir)
	cmd.Stdin = read
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // out of reach of the terminal's signals
	if err := cmd.Start(); err != nil {
		return place{}, fmt.Errorf("start the cleaner: %w", err)
	}
	return place{dir: dir, input: write}, nil
})

// template returns a folder with a new cluster to copy, and the programs that
// made it. It is made once a day and version: system services remove files of
// some days' age from the temporary directory one by one.
func template(ctx context.Context) (dir, bin string, err error) {
	parent, err := base()
	if err != nil {
		return "", "", err
	}
	bin, err = pgserver.Binaries(ctx, pgserver.Config{Dir: parent})
	if err != nil {
		return "", "", err
	}
	info, err := os.Stat(filepath.Join(bin, "postgres"))
	if err != nil {
		return "", "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %v", bin, info.Size(), info.ModTime().UnixNano()))
	today := time.Now().UTC().Format(time.DateOnly)
	dir = filepath.Join(parent, "template-"+today+"-"+hex.EncodeToString(sum[:4]))

	lock, err := os.OpenFile(filepath.Join(parent, "template.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", "", err
	}
	if err := pgserver.Init(ctx, pgserver.Config{Dir: dir, Bin: bin, NoSync: true}); err != nil {
		return "", "", err
	}
	return dir, bin, removeOld(parent)
}

// removeOld removes templates of before yesterday; a younger one may be being copied.
func removeOld(parent string) error {
	oldest := filepath.Join(parent, "template-"+time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly))
	all, err := filepath.Glob(filepath.Join(parent, "template-*"))
	for _, dir := range all {
		if dir < oldest {
			err = os.RemoveAll(dir)
		}
	}
	return err
}
