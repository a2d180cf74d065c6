package pgserver

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
)

// freePort returns a TCP port that is free now. It lies below the range from
// which systems take ports for outgoing connections, so a server that is
// restarted seldom finds that its port was taken meanwhile.
func freePort() (int, error) {
	for range 100 {
		port := 15000 + rand.IntN(17000)
		if portFree(port) {
			return port, nil
		}
	}
	return 0, errors.New("no free TCP port between 15000 and 32000 found in 100 tries")
}

func portFree(port int) bool {
	l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// logTail returns the last lines of the file from offset on, 2 kB at most.
func logTail(path string, offset int64) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil {
		offset = max(offset, info.Size()-2048)
	}
	raw, err := io.ReadAll(io.NewSectionReader(file, offset, 2048))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}
