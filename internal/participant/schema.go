package participant

import (
	"embed"
	"io/fs"
)

//go:embed schema/*.sql
var schema embed.FS

// Schema is the migrations of a participant's order states, for pg.Migrate.
func Schema() fs.FS { return schema }
