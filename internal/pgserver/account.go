package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that initdb and postgres run as: the present one, except
// for root, which PostgreSQL refuses.
type account struct {
	switched bool // to another user than the present one
	name     string
	uid, gid uint32
}

// account returns what to run PostgreSQL as. For root that is the owner of the
// cluster when there is one, since PostgreSQL insists on being run by its owner.
func (c Config) account() (account, error) {
	if os.Geteuid() != 0 {
		return account{name: "uid " + strconv.Itoa(os.Geteuid()), uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}, nil
	}
	if info, err := os.Stat(c.data()); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 {
			return account{switched: true, name: "uid " + strconv.Itoa(int(stat.Uid)), uid: stat.Uid, gid: stat.Gid}, nil
		}
	}
	var errs []error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			errs = append(errs, fmt.Errorf("user %s: %w", name, err))
			continue
		}
		return account{switched: true, name: "user " + name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return account{}, fmt.Errorf("PostgreSQL does not run as root, and this machine has no user for it: %w", errors.Join(errs...))
}

// own gives path, not what is in it, to the account.
func (a account) own(path string) error {
	if !a.switched {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// mkdir makes a folder that the account alone may enter, or takes over one that
// is there. It refuses a folder of somebody else: in the shared temporary
// directory anybody can make one under a name that can be guessed.
func (a account) mkdir(path string) error {
	err := os.Mkdir(path, 0o700)
	if err == nil {
		return a.own(path)
	}
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || stat.Uid != a.uid && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a folder of %s", path, a.name)
	}
	if err := a.own(path); err != nil {
		return err
	}
	return os.Chmod(path, 0o700)
}

// command prepares one of PostgreSQL's programs to run as the account, with
// access to the folders in paths. It gets a small environment: PGDATA, PGPORT and
// their like must not reach the server.
func (a account) command(ctx context.Context, paths []string, program string, args ...string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	// A group of its own: Ctrl-C at the terminal is for the supervisor, which
	// stops its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if !a.switched {
		return cmd, nil
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	const refused = "PostgreSQL runs as %s because you are root, and that user cannot enter %s on the way to %s: choose a folder elsewhere"
	// Capabilities do not help here: the programs look for each other with
	// access(2), which disregards them.
	if blocked := a.blockedAt(filepath.Dir(program)); blocked != "" {
		return nil, fmt.Errorf(refused, a.name, blocked, program)
	}
	for _, path := range paths {
		if blocked := a.blockedAt(path); blocked != "" && !passBlocked(cmd.SysProcAttr) {
			return nil, fmt.Errorf(refused, a.name, blocked, path)
		}
	}
	return cmd, nil
}

// blockedAt returns the first folder above path that the account cannot pass, or "".
func (a account) blockedAt(path string) string {
	if parent := filepath.Dir(path); parent != path {
		if blocked := a.blockedAt(parent); blocked != "" {
			return blocked
		}
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	bit := os.FileMode(0o001)
	switch {
	case stat.Uid == a.uid:
		bit = 0o100
	case stat.Gid == a.gid:
		bit = 0o010
	}
	if info.Mode()&bit == 0 {
		return path
	}
	return ""
}
