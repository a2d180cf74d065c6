// Package docscheck holds the tables of documents to the code. A table that says "this cannot go wrong, TestX sees to it" is worth what its
// least true row is: a test is renamed, a command gets another flag, a row is forgotten, and nobody notices. So a test reads the tables and
// finds in the code what they name.
//
// A row begins with an identity (C12, CON-05) in the first cell; tables whose first cells are no identities are left alone. What a row names
// stands in code spans:
//
//	`internal/intent.TestLostLease`             a test of a package, or a fuzz target
//	`internal/intent.TestOutcome/no redirect`   a subtest, whose name is a literal in the same file
//	`e2e/testdata/kill.txt`                     a script, or any other file
//	`go test ./internal/intent -run TestLost`   a command; so are `make …` and `bin/chorus …`
//
// It reads files and nothing else.
package docscheck
