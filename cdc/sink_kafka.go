//go:build !discard

package cdc

// discards is false in every build but the benchmark's null run, which must
// not be able to happen by a setting: it confirms rows that nobody has.
const discards = false
