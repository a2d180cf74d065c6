package avsc

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzParse reads schemas that a registry may hand out: nothing may panic, and what is taken is compatible with itself.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../../../schemas/*.avsc")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(`{"type":"record","name":"R","fields":[{"name":"a","type":["null",{"type":"map","values":"bytes"}]},{"name":"b","type":{"type":"fixed","name":"F","size":16}}]}`)
	f.Add(`{"type":"array","items":{"type":"enum","name":"n.E","symbols":["A","B"],"default":"A"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		shape, err := Parse(text)
		if err != nil {
			return
		}
		if problems := Full(shape, shape); len(problems) > 0 {
			t.Fatalf("%s does not agree with itself: %v", text, problems)
		}
		if shape.Branch() == "" {
			t.Fatalf("%s has no name", text)
		}
	})
}
