package intent_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/intent"
	"chorus/internal/pg"
	"chorus/internal/pgtest"
	"chorus/internal/providertest"
)

// TestServiceRoleCannotRewrite: the workers do with insert and select on the attempts, which is all that the service's
// role has there; the owner prunes (D7, G6).
func TestServiceRoleCannotRewrite(t *testing.T) {
	t.Parallel()
	owner, service := asRoles(t)
	b := &bench{t: t, pool: service}
	p := providertest.Start(t, broken, unknown, created)
	b.plan(do(1))
	b.start(quick(), provided(t, p.URL, 5*time.Second))
	b.answers(1)
	if diff := cmp.Diff([]string{"ATTEMPT lost", "ASK absent", "ATTEMPT ok"}, b.trail(1)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, sql := range []string{"UPDATE call_attempts SET result = 'ok'", "DELETE FROM call_attempts", "TRUNCATE call_attempts"} {
		if _, err := service.Exec(t.Context(), sql); pg.Code(err) != "42501" {
			t.Errorf("%s: %v, want it forbidden", sql, err)
		}
	}
	if _, err := intent.Prune(t.Context(), service, 0, 10); pg.Code(err) != "42501" {
		t.Errorf("the service prunes: %v", err)
	}
	if n, err := intent.Prune(t.Context(), owner, 0, 10); n != 1 || err != nil {
		t.Errorf("the owner pruned %d calls, %v", n, err)
	}
}

// asRoles is a service's database as it is set up for real (D3), seen by its owner and by the service.
func asRoles(t *testing.T) (owner, service *pgxpool.Pool) {
	t.Helper()
	admin := pgtest.Database(t)
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	name := u.Path[1:] + "_x"
	spec := pg.DatabaseSpec{Name: name,
		Owner: pg.Role{Name: name + "_owner", Password: "owner"}, Service: pg.Role{Name: name, Password: "service"}}
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), admin)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		for _, sql := range []string{"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)", "DROP ROLE IF EXISTS " + name + ", " + spec.Owner.Name} {
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
		}
	})
	if err := pg.EnsureDatabase(t.Context(), admin, spec); err != nil {
		t.Fatal(err)
	}
	as := func(role pg.Role) (string, *pgxpool.Pool) {
		dsn, err := pg.WithDatabase(admin, name, role.Name, role.Password)
		if err != nil {
			t.Fatal(err)
		}
		pool, err := pg.Open(t.Context(), dsn, pg.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return dsn, pool
	}
	dsn, owner := as(spec.Owner)
	_, service = as(spec.Service)
	if err := pg.Migrate(t.Context(), dsn, intent.Schema()); err != nil {
		t.Fatal(err)
	}
	for _, table := range intent.AppendOnly() {
		if err := pg.RestrictToInsert(t.Context(), dsn, table, spec.Service.Name); err != nil {
			t.Fatal(err)
		}
	}
	(&bench{t: t, pool: owner}).exec(answered)
	return owner, service
}
