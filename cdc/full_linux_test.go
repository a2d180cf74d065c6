package cdc_test

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"chorus/cdc"
)

// fileLimit sets how large files of a process may become; its reason is then EFBIG.
func fileLimit(pid int, bytes uint64) error {
	return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil)
}

// A large transaction for which there is no room on the disk: the publisher stands still and says why, publishes nothing
// of it, confirms nothing beyond it, and goes on in the order of the commits when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	t.Run("file system", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		dir := r.cfg.SpillDir
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
			t.Skipf("a small file system cannot be made here: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
		r.fullDisk(r.spawn(), "no space left on device", func() error { return syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m") })
	})
	t.Run("limit of a file", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		p := r.spawn()
		if err := fileLimit(p.cmd.Process.Pid, 2<<20); err != nil {
			t.Fatal(err)
		}
		r.fullDisk(p, "file too large", func() error { return fileLimit(p.cmd.Process.Pid, 64<<20) })
	})
}

func (r *rig) fullDisk(p *process, reason string, makeRoom func() error) {
	t := r.t
	t.Helper()
	r.streamSoon()
	p.waitState(cdc.CaughtUp)
	want := map[string][]int64{"1": r.insert(2, "1"), "2": r.insert(2, "2")}
	tx := r.begin(r.connect())
	large := r.addLarge(tx, 6, "1")
	p.waitStalled(reason)
	p.waitStalled("spill to " + r.cfg.SpillDir)
	want["1"] = append(want["1"], r.insert(2, "1")...)
	r.commit(tx)
	committed := r.end()
	want["1"] = append(append(want["1"], large...), r.insert(2, "1")...)
	want["2"] = append(want["2"], r.insert(2, "2")...)
	before := p.metric(`chorus_cdc_reconnects_total{source="orders"}`)
	eventually(t, "another try after the commit", func() bool { return p.metric(`chorus_cdc_reconnects_total{source="orders"}`) != before })
	p.waitStalled(reason)
	if at := r.confirmed(); at >= committed {
		t.Errorf("confirmed %X, beyond a transaction that ends at %X and is not published", at, committed)
	}
	topic := r.read()
	topic.wait(4) // what was committed before is there, and nothing of the large one
	for _, rec := range topic.all {
		if len(rec.Value) > 1000 {
			t.Errorf("row %d of the large transaction is published", number(rec))
		}
	}
	if err := makeRoom(); err != nil {
		t.Fatal(err)
	}
	topic.complete(want)
	r.waitConfirmed(committed)
	p.waitState(cdc.CaughtUp)
}
