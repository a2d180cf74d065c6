//go:build unix && !linux

package cluster

import "syscall"

// signalTree signals the process group of pid. Descendants that have left the group are not reached on this system.
func signalTree(pid int, sig syscall.Signal) { _ = syscall.Kill(-pid, sig) }
