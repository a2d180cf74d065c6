package embedded

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/sr"
)

var discard = slog.New(slog.DiscardHandler)

var seeds = []Schema{
	{Subject: "orders.OrderPlaced", ID: 1, Version: 1, Text: record("OrderPlaced")},
	{Subject: "orders.OrderPlaced", ID: 7, Version: 2, Text: record("OrderPlaced", "total")},
	{Subject: "billing.PaymentTaken", ID: 2, Version: 1, Text: record("PaymentTaken")},
}

func record(name string, fields ...string) string {
	var defs []string
	for _, f := range fields {
		defs = append(defs, `{"name":"`+f+`","type":"long","default":0}`)
	}
	return `{"type":"record","name":"` + name + `","fields":[` + strings.Join(defs, ",") + `]}`
}

// open serves the registry in file until the returned function is called or the test ends.
func open(t *testing.T, file string, seeds []Schema) (*sr.Client, func()) {
	t.Helper()
	registry, err := OpenRegistry(file, seeds)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry)
	closed := false
	end := func() {
		if closed {
			return
		}
		closed = true
		server.Close()
		if err := registry.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	client, err := sr.NewClient(sr.URLs(server.URL))
	if err != nil {
		t.Fatal(err)
	}
	return client, end
}

func TestSeedsAreServedUnderTheirIDs(t *testing.T) {
	t.Parallel()
	client, _ := open(t, filepath.Join(t.TempDir(), "log"), seeds)
	ctx := deadline(t)
	for _, s := range seeds {
		byID, err := client.SchemaByID(ctx, s.ID)
		if err != nil || byID.Schema != s.Text {
			t.Errorf("schema %d: %q, %v", s.ID, byID.Schema, err)
		}
		byVersion, err := client.SchemaByVersion(ctx, s.Subject, s.Version)
		if err != nil || byVersion.ID != s.ID {
			t.Errorf("%s version %d: id %d, %v", s.Subject, s.Version, byVersion.ID, err)
		}
		again, err := client.CreateSchema(ctx, s.Subject, sr.Schema{Schema: s.Text})
		if err != nil || again.ID != s.ID {
			t.Errorf("%s registered again: id %d, %v", s.Subject, again.ID, err)
		}
	}
	// As Confluent's deserializers ask: by id, with the subject that the topic's name would give.
	for _, query := range []string{"", "?subject=orders.events-value", "?fetchMaxId=false&subject=orders.events-value"} {
		req := httptest.NewRequest(http.MethodGet, "/schemas/ids/7"+query, nil)
		answer := httptest.NewRecorder()
		registry, err := OpenRegistry(filepath.Join(t.TempDir(), "log"), seeds)
		if err != nil {
			t.Fatal(err)
		}
		registry.ServeHTTP(answer, req)
		if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "total") {
			t.Errorf("%s: %d %s", query, answer.Code, answer.Body)
		}
		if err := registry.Close(); err != nil {
			t.Error(err)
		}
	}
	subjects, err := client.Subjects(ctx)
	if diff := cmp.Diff([]string{"billing.PaymentTaken", "orders.OrderPlaced"}, subjects); err != nil || diff != "" {
		t.Errorf("subjects: %v (-want +got):\n%s", err, diff)
	}
	_, err = client.SchemaByID(ctx, 500)
	if re := new(sr.ResponseError); !errors.As(err, &re) || re.ErrorCode != sr.ErrSchemaNotFound.Code {
		t.Errorf("unknown id: %v", err)
	}
}

func TestRegisteredSchemasKeepTheirIDsOverARestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	client, end := open(t, file, seeds)
	ctx := deadline(t)
	ids := map[string]int{}
	for _, name := range []string{"A", "B", "C"} {
		s, err := client.CreateSchema(ctx, name, sr.Schema{Schema: record(name)})
		if err != nil || s.ID < firstRegisteredID {
			t.Fatalf("register %s: id %d, %v", name, s.ID, err)
		}
		ids[name] = s.ID
	}
	shared, err := client.CreateSchema(ctx, "A-copy", sr.Schema{Schema: record("A")})
	if err != nil || shared.ID != ids["A"] {
		t.Fatalf("the same schema under another subject: id %d, want %d, %v", shared.ID, ids["A"], err)
	}
	if _, err := client.DeleteSubject(ctx, "B", sr.SoftDelete); err != nil {
		t.Fatal(err)
	}
	size := fileSize(t, file)
	if _, err := client.CreateSchema(ctx, "A", sr.Schema{Schema: record("A")}); err != nil {
		t.Fatal(err)
	}
	if now := fileSize(t, file); now != size {
		t.Errorf("registering a known schema made the journal grow from %d to %d bytes", size, now)
	}
	end()

	// A release brings one more schema; what was registered keeps its ids.
	client, _ = open(t, file, append([]Schema{{Subject: "orders.New", ID: 8, Version: 1, Text: record("New")}}, seeds...))
	for _, name := range []string{"A", "C", "A-copy"} {
		s, err := client.SchemaByVersion(ctx, name, 1)
		if want := ids[strings.TrimSuffix(name, "-copy")]; err != nil || s.ID != want {
			t.Errorf("%s after restart: id %d, want %d, %v", name, s.ID, want, err)
		}
	}
	if _, err := client.SchemaByVersion(ctx, "B", 1); err == nil {
		t.Error("the deleted subject is back")
	}
	next, err := client.CreateSchema(ctx, "D", sr.Schema{Schema: record("D")})
	if err != nil || next.ID <= ids["C"] {
		t.Errorf("id of the next schema is %d, the last one before the restart was %d, %v", next.ID, ids["C"], err)
	}
}

func TestJournalCutOffByACrash(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	client, end := open(t, file, nil)
	kept, err := client.CreateSchema(deadline(t), "kept", sr.Schema{Schema: record("Kept")})
	if err != nil {
		t.Fatal(err)
	}
	end()
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(whole, `{"method":"POST","uri":"/subj`...), 0o644); err != nil {
		t.Fatal(err)
	}
	client, _ = open(t, file, nil)
	if s, err := client.SchemaByID(deadline(t), kept.ID); err != nil || s.Schema != record("Kept") {
		t.Errorf("%q, %v", s.Schema, err)
	}
	if now := fileSize(t, file); now != int64(len(whole)) {
		t.Errorf("journal has %d bytes, want %d", now, len(whole))
	}
}

func TestRegistryRefusesToMoveIDs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	client, end := open(t, file, nil)
	if _, err := client.CreateSchema(deadline(t), "A", sr.Schema{Schema: record("A")}); err != nil {
		t.Fatal(err)
	}
	end()
	_, err := OpenRegistry(file, []Schema{{Subject: "A", ID: 3, Version: 1, Text: record("A")}})
	if err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("error %v, want one that names the line", err)
	}
}

func TestJournalThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	registry, err := OpenRegistry(filepath.Join(t.TempDir(), "log"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.Close(); err != nil { // a closed file refuses writes
		t.Fatal(err)
	}
	for range 2 { // the second time the schema is already in memory
		w := httptest.NewRecorder()
		registry.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/subjects/A/versions", strings.NewReader(`{"schema":"\"long\""}`)))
		if w.Code != http.StatusInternalServerError {
			t.Errorf("status %d %s: the change is not in the journal", w.Code, w.Body)
		}
	}
}

func TestCompatibilityIsNotPromised(t *testing.T) {
	t.Parallel()
	client, _ := open(t, filepath.Join(t.TempDir(), "log"), seeds)
	ctx := deadline(t)
	if got := client.Compatibility(ctx); got[0].Err != nil || got[0].Level != sr.CompatNone {
		t.Errorf("level %v, %v", got[0].Level, got[0].Err)
	}
	for _, subjects := range [][]string{nil, {"orders.OrderPlaced"}} {
		if got := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, subjects...); got[0].Err == nil {
			t.Errorf("level FULL accepted for %v", subjects)
		}
	}
}

func TestFaultySeedsAreReportedTogether(t *testing.T) {
	t.Parallel()
	_, err := OpenRegistry(filepath.Join(t.TempDir(), "log"), []Schema{
		{Subject: "A", ID: 1, Version: 1, Text: `"long"`},
		{Subject: "B", ID: 1, Version: 1, Text: `"int"`},
		{Subject: "A", ID: 2, Version: 1, Text: `"string"`},
		{Subject: "", ID: 3, Version: 1, Text: `"string"`},
		{Subject: "C", ID: 0, Version: 1, Text: `"string"`},
		{Subject: "D", ID: firstRegisteredID, Version: 1, Text: `"string"`},
		{Subject: "E", ID: 4, Version: 1, Text: `{`},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != 6 {
		t.Errorf("%d faults reported, want 6:\n%v", got, err)
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
