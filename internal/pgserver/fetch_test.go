package pgserver

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// program is an archive like that of the real package, with bin/postgres and
// bin/initdb, two shell scripts that say they are version 17.5.
//
//go:embed testdata/postgres.txz
var program []byte

// repository is a Maven repository with one package.
type repository struct {
	*httptest.Server
	downloads atomic.Int32
	status    int
	sum       string
}

func newRepository(t *testing.T, archive []byte) *repository {
	var jar bytes.Buffer
	w := zip.NewWriter(&jar)
	f, err := w.Create("postgres-os-arch.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(archive); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(jar.Bytes())
	r := &repository{status: http.StatusOK, sum: hex.EncodeToString(sum[:])}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case !strings.Contains(req.URL.Path, "/embedded-postgres-binaries-"):
			w.WriteHeader(http.StatusNotFound)
		case strings.HasSuffix(req.URL.Path, ".sha256"):
			w.Write([]byte(r.sum))
		default:
			r.downloads.Add(1)
			w.WriteHeader(r.status)
			w.Write(jar.Bytes())
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func TestFetchOnce(t *testing.T) {
	t.Parallel()
	repo := newRepository(t, program)
	cfg, err := Config{Dir: t.TempDir(), Cache: filepath.Join(t.TempDir(), "cache"), Repository: repo.URL + "/"}.check()
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			bin, err := cfg.fetch(within(t))
			if err != nil {
				t.Error(err)
				return
			}
			if major, err := majorOf(within(t), bin); err != nil || major != fetchedMajor {
				t.Errorf("the fetched programs: version %d, %v", major, err)
			}
		})
	}
	both.Wait()
	before := repo.downloads.Load()
	if _, err := cfg.fetch(within(t)); err != nil {
		t.Error(err)
	}
	if n := repo.downloads.Load(); n != before || n == 0 {
		t.Errorf("%d downloads, %d after a third fetch: want the same", before, n)
	}
	eventually(t, "only the programs are left in the cache", func() bool {
		left, err := os.ReadDir(cfg.Cache)
		return err == nil && len(left) == 1
	})
}

func TestFetchFailures(t *testing.T) {
	t.Parallel()
	for name, repo := range map[string]*repository{
		"damaged archive": newRepository(t, program[:len(program)/2]),
		"wrong checksum":  newRepository(t, program),
		"not there":       newRepository(t, program),
		"unreachable":     newRepository(t, program),
	} {
		switch name {
		case "wrong checksum":
			repo.sum = strings.Repeat("0", 64)
		case "not there":
			repo.status = http.StatusNotFound
		case "unreachable":
			repo.Close()
		}
		cfg, err := Config{Dir: t.TempDir(), Cache: t.TempDir(), Repository: repo.URL}.check()
		if err != nil {
			t.Fatal(err)
		}
		if bin, err := cfg.fetch(within(t)); err == nil {
			t.Errorf("%s: fetched into %s", name, bin)
		} else {
			t.Logf("%s: %v", name, err)
		}
		eventually(t, name+": nothing is left in the cache", func() bool {
			left, err := os.ReadDir(cfg.Cache)
			return err == nil && len(left) == 0
		})
	}
}
