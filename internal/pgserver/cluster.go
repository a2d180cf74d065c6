package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Init makes the cluster in cfg.Dir without starting it; it does nothing when
// there is one. Use it to make a [Config.Template].
func Init(ctx context.Context, cfg Config) error {
	cfg, err := cfg.check()
	if err != nil {
		return err
	}
	run, err := cfg.account()
	if err != nil {
		return err
	}
	bin, err := cfg.binaries(ctx)
	if err != nil {
		return err
	}
	lock, err := cfg.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	return cfg.initialise(ctx, bin, run)
}

// initialise makes the cluster and the password unless they are there. The
// password is stored before the cluster that requires it is given its final
// name; one without the other is made anew.
func (c Config) initialise(ctx context.Context, bin string, run account) error {
	there, err := exists(c.data())
	if err != nil || there {
		return err
	}
	c.Logger.Info("creating the database cluster", "dir", c.data())
	half := c.data() + ".half"
	if err := os.RemoveAll(half); err != nil {
		return fmt.Errorf("clear %s: %w", half, err)
	}
	if c.Template != "" {
		err = c.copyTemplate(ctx, half)
	} else {
		err = c.initdb(ctx, bin, half, run)
	}
	if err != nil {
		return err
	}
	if err := os.Rename(half, c.data()); err != nil {
		return fmt.Errorf("put the new cluster in place: %w", err)
	}
	return nil
}

func (c Config) initdb(ctx context.Context, bin, data string, run account) error {
	password := rand.Text()
	self := account{}
	if err := writeFile(c.passwordFile(), password+"\n", self); err != nil {
		return fmt.Errorf("store the superuser's password: %w", err)
	}
	if err := run.mkdir(data); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	// initdb reads the password from a file, as the other user; it is removed
	// below, and with the half-made folder after a crash.
	passed := filepath.Join(c.Dir, "password.initdb")
	defer os.Remove(passed)
	if err := writeFile(passed, password+"\n", run); err != nil {
		return fmt.Errorf("hand the password to initdb: %w", err)
	}
	args := []string{
		"--pgdata=" + data, "--username=" + Superuser, "--pwfile=" + passed,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C",
	}
	if c.NoSync {
		args = append(args, "--no-sync")
	}
	cmd, err := run.command(ctx, []string{c.Dir}, filepath.Join(bin, "initdb"), args...)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb in %s: %w: %s", data, cause(ctx, err), strings.TrimSpace(string(out)))
	}
	conf, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("include our settings: %w", err)
	}
	_, err = fmt.Fprintf(conf, "\ninclude '%s'\n", confName)
	if err := errors.Join(err, conf.Close()); err != nil {
		return fmt.Errorf("include our settings: %w", err)
	}
	return nil
}

// copyTemplate copies with cp, which keeps owners and modes and clones blocks
// where the file system can.
func (c Config) copyTemplate(ctx context.Context, data string) error {
	from := Config{Dir: c.Template}
	for _, pair := range [][2]string{{from.passwordFile(), c.passwordFile()}, {from.data(), data}} {
		out, err := exec.CommandContext(ctx, "cp", "-a", pair[0], pair[1]).CombinedOutput()
		if err != nil {
			return fmt.Errorf("copy %s: %w: %s", pair[0], cause(ctx, err), strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// cause prefers why ctx ended to "signal: killed", which is how exec shows it.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
