//go:build discard

package cdc

// discards makes a publisher that gives every record for acknowledged without
// sending it: what is left is reading and making records (bench/cdc).
const discards = true
