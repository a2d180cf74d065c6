//go:build !linux

package cdc

import "github.com/jackc/pgx/v5/pgconn"

// unpolled leaves connections as they are.
func unpolled(dial pgconn.DialFunc) pgconn.DialFunc { return dial }
