package embedded

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// journal is the file of the registry's changes, one JSON object a line, in the order in which they were made.
type journal struct {
	file *os.File
	end  int64 // bytes of whole lines

	// incomplete: a change could not be written, so memory may hold what the file does not.
	incomplete bool
}

// openJournal creates the file if needed and gives every change in it to replay. A last line without its end was being written when the process
// died; nobody was told that its change is made, so it is cut off.
func openJournal(path string, replay func(change) error) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open registry journal: %w", err)
	}
	j := &journal{file: file}
	if err := j.read(replay); err != nil {
		file.Close()
		return nil, fmt.Errorf("registry journal %s: %w", path, err)
	}
	return j, nil
}

func (j *journal) read(replay func(change) error) error {
	lines := bufio.NewReader(j.file)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return j.cut()
		}
		if err != nil {
			return fmt.Errorf("read line %d: %w", n, err)
		}
		var c change
		if err := json.Unmarshal(line, &c); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := replay(c); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		j.end += int64(len(line))
	}
}

// cut ends the file after its last whole line.
func (j *journal) cut() error {
	if err := j.file.Truncate(j.end); err != nil {
		return fmt.Errorf("cut off an unfinished line: %w", err)
	}
	return nil
}

// append writes one change and flushes it to the disk.
func (j *journal) append(c change) error {
	line, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode registry change: %w", err)
	}
	line = append(line, '\n')
	_, err = j.file.WriteAt(line, j.end)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		j.incomplete = true
		return errors.Join(fmt.Errorf("write registry journal: %w", err), j.cut())
	}
	j.end += int64(len(line))
	return nil
}

func (j *journal) close() error {
	if err := j.file.Close(); err != nil {
		return fmt.Errorf("close registry journal: %w", err)
	}
	return nil
}
