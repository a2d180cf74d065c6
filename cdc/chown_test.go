package cdc_test

import (
	"io/fs"
	"os"
	"syscall"
)

// chownLike gives a file to the owner of another.
func chownLike(path string, other fs.FileInfo) error {
	s := other.Sys().(*syscall.Stat_t)
	return os.Chown(path, int(s.Uid), int(s.Gid))
}
