// Package importtest holds no code: its test is the table of who may import what. A new package needs a row there, and the
// row says what the package is made with; the picture in DESIGN.md says the same in words.
package importtest
