package spill

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// These make this program one that fills a store and waits to be killed, and
// one that has no room for it.
const (
	holdDir = "CHORUS_SPILL_TEST_HOLD"
	fullDir = "CHORUS_SPILL_TEST_FULL"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdDir); dir != "" {
		s, err := Open(dir, Limits{Transaction: 1})
		if err == nil {
			err = s.Append(1, 1, []byte("row"))
		}
		fmt.Println(err)
		select {}
	}
	if dir := os.Getenv(fullDir); dir != "" {
		fmt.Println(fillLimited(dir))
		return
	}
	os.Exit(m.Run())
}

func open(t testing.TB, dir string, l Limits) *Store {
	t.Helper()
	s, err := Open(dir, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func folders(t testing.TB, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestAgainstModel compares the store with a map of slices, and its memory with its limits.
func TestAgainstModel(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{Transaction: rapid.IntRange(1, 200).Draw(t, "limit"), Total: rapid.IntRange(1, 500).Draw(t, "total")}
		s, err := Open(dir, limits)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		type part struct {
			sub  uint32
			data string
		}
		model := map[uint32][]part{}
		aborted := map[uint32]map[uint32]bool{1: {}, 2: {}, 3: {}}
		xid := rapid.Uint32Range(1, 3)
		const longest = 100
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				x := xid.Draw(t, "xid")
				p := part{rapid.Uint32Range(1, 9).Draw(t, "sub"), rapid.StringN(0, longest, longest).Draw(t, "data")}
				if aborted[x][p.sub] {
					t.Skip("its number does not come again")
				}
				if err := s.Append(x, p.sub, []byte(p.data)); err != nil {
					t.Fatal(err)
				}
				model[x] = append(model[x], p)
			},
			"abort": func(t *rapid.T) {
				x, sub := xid.Draw(t, "xid"), rapid.Uint32Range(1, 9).Draw(t, "sub")
				if err := s.Abort(x, sub); err != nil {
					t.Fatal(err)
				}
				switch {
				case x == sub:
					delete(model, x)
					clear(aborted[x])
				case len(model[x]) > 0:
					aborted[x][sub] = true
				}
				for i, p := range model[x] {
					if p.sub == sub {
						model[x][i].sub = 0
					}
				}
			},
			"replay": func(t *rapid.T) {
				x := xid.Draw(t, "xid")
				var got, want []string
				for _, p := range model[x] {
					if p.sub != 0 {
						want = append(want, p.data)
					}
				}
				if n := s.Parts(x); n != int64(len(model[x])) {
					t.Fatalf("%d parts, want %d", n, len(model[x]))
				}
				if err := s.Replay(x, func(data []byte) error { got = append(got, string(data)); return nil }); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatal(diff)
				}
				delete(model, x)
				clear(aborted[x])
			},
			"": func(t *rapid.T) {
				u := s.Usage()
				if room := int64(limits.Total + 4*(longest+frameHeader)); u.Memory > int64(limits.Total) || u.Peak > room || u.Transactions != int64(len(model)) {
					t.Fatalf("%+v with %d transactions and limits %+v", u, len(model), limits)
				}
			},
		})
		for x := range model {
			if err := s.Abort(x, x); err != nil {
				t.Fatal(err)
			}
		}
		if u := s.Usage(); u.Memory != 0 || u.Disk != 0 || u.Transactions != 0 {
			t.Fatalf("%+v is left", u)
		}
	})
}

func TestSmallTransactionsTouchNoDisk(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Limits{})
	for x := range uint32(100) {
		if err := s.Append(x+1, x+1, make([]byte, 10_000)); err != nil {
			t.Fatal(err)
		}
	}
	if u := s.Usage(); u.Disk != 0 {
		t.Fatalf("%+v", u)
	}
}

// A store that lives is left alone by others; what dead ones left is removed.
func TestOpenRemovesWhatTheDeadLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	living := open(t, dir, Limits{Transaction: 1})
	if err := living.Append(1, 1, []byte("row")); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), holdDir+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 6)
	if _, err := out.Read(said); err != nil || !bytes.HasPrefix(said, []byte("<nil>")) {
		t.Fatalf("child says %q, %v", said, err)
	}
	open(t, dir, Limits{})
	if n := len(folders(t, dir)); n != 3 {
		t.Fatalf("%d folders with three living stores", n)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if err := os.MkdirAll(filepath.Join(dir, prefix+"without-lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, dir, Limits{})
	if n := len(folders(t, dir)); n != 3 {
		t.Fatalf("%d folders are left, want those of the three that live", n)
	}
	var got []string
	if err := living.Replay(1, func(data []byte) error { got = append(got, string(data)); return nil }); err != nil || len(got) != 1 {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestCloseRemovesEverything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, Limits{Transaction: 1})
	if err := s.Append(1, 1, []byte("row")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left := folders(t, dir); left != nil {
		t.Fatalf("%q", left)
	}
}

// Nothing is published from a file that somebody damaged.
func TestDamagedFileIsFound(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"removed":   os.Remove,
		"shortened": func(path string) error { return os.Truncate(path, 15) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir, Limits{Transaction: 1})
			for range 2 {
				if err := s.Append(7, 7, []byte("row")); err != nil {
					t.Fatal(err)
				}
			}
			if err := damage(filepath.Join(folders(t, dir)[0], "7")); err != nil {
				t.Fatal(err)
			}
			if err := s.Replay(7, func([]byte) error { return nil }); err == nil {
				t.Fatal("replayed as if it were whole")
			}
		})
	}
}

// A child whose files may not grow stands for a disk that is full.
func TestFullDiskIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), fullDir+"="+dir)
	out, err := child.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out, []byte("spill to "+dir)) || !bytes.Contains(out, []byte(syscall.EFBIG.Error())) {
		t.Fatalf("child says %q", out)
	}
}

func fillLimited(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1000, Max: 1000}); err != nil {
		return err
	}
	s, err := Open(dir, Limits{Transaction: 1})
	if err != nil {
		return err
	}
	for range 3 {
		if err := s.Append(1, 1, make([]byte, 400)); err != nil {
			return err
		}
	}
	return nil
}

func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, 1, []byte("a")), 2, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		if err := splitFrames(b, func(sub uint32, data []byte) error { again = appendFrame(again, sub, data); return nil }); err == nil && !bytes.Equal(b, again) {
			t.Fatalf("%x became %x", b, again)
		}
	})
}
