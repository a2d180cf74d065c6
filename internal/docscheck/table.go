package docscheck

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Row is a row of a table that begins with an identity.
type Row struct {
	Line  int      // in the document, from 1
	ID    string   // as in C12 or CON-05
	Cells []string // after the identity
}

var identity = regexp.MustCompile(`^[A-Z]{1,3}-?[0-9]{1,3}$`)

// Rows reads the tables of a document. Rows of tables without identities are not among them.
func Rows(path string) ([]Row, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a document: %w", err)
	}
	return parse(string(text)), nil
}

func parse(text string) (rows []Row) {
	for i, line := range strings.Split(text, "\n") {
		cells := split(line)
		if len(cells) > 1 && identity.MatchString(cells[0]) {
			rows = append(rows, Row{Line: i + 1, ID: cells[0], Cells: cells[1:]})
		}
	}
	return rows
}

// split returns the cells of a line of a table; a bar behind a backslash is text.
func split(line string) []string {
	line = strings.TrimSpace(line)
	if len(line) < 2 || line[0] != '|' || line[len(line)-1] != '|' {
		return nil
	}
	line = strings.ReplaceAll(line[1:len(line)-1], `\|`, "\x00")
	cells := strings.Split(line, "|")
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(strings.TrimSpace(c), "\x00", "|")
	}
	return cells
}

// Cell returns a cell after the identity, from 0; "" when the row is too short.
func (r Row) Cell(i int) string {
	if i >= len(r.Cells) {
		return ""
	}
	return r.Cells[i]
}

var span = regexp.MustCompile("`([^`]+)`")

// Spans returns the code spans of a cell.
func Spans(cell string) (texts []string) {
	for _, m := range span.FindAllStringSubmatch(cell, -1) {
		texts = append(texts, m[1])
	}
	return texts
}

// Numbered returns the identities PREFIXfrom to PREFIXto.
func Numbered(prefix string, from, to int) (ids []string) {
	for n := from; n <= to; n++ {
		ids = append(ids, prefix+strconv.Itoa(n))
	}
	return ids
}

// Complete compares the rows with the identities that there must be: each one row, and no other.
func Complete(rows []Row, want []string) (faults []string) {
	seen := map[string]int{}
	for _, r := range rows {
		switch {
		case seen[r.ID] > 0:
			faults = append(faults, fmt.Sprintf("line %d: %s has a row in line %d already", r.Line, r.ID, seen[r.ID]))
		case !slices.Contains(want, r.ID):
			faults = append(faults, fmt.Sprintf("line %d: nobody knows %s", r.Line, r.ID))
		}
		seen[r.ID] = r.Line
		for i, c := range r.Cells {
			if c == "" {
				faults = append(faults, fmt.Sprintf("line %d: %s: cell %d is empty", r.Line, r.ID, i+2))
			}
		}
		if len(r.Cells) != len(rows[0].Cells) {
			faults = append(faults, fmt.Sprintf("line %d: %s has %d cells, others have %d", r.Line, r.ID, len(r.Cells)+1, len(rows[0].Cells)+1))
		}
	}
	for _, id := range want {
		if seen[id] == 0 {
			faults = append(faults, id+" has no row")
		}
	}
	return faults
}
