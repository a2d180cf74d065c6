package inventory

import (
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
)

// OpenShelf is openShelf.
var OpenShelf = openShelf

// Routes adds the API of the counts.
func Routes(db *pgxpool.Pool, mux *http.ServeMux) { counts{db}.routes(mux) }
