//go:build !linux

package pgserver

import "syscall"

// dieWithParent does nothing: only Linux offers it. The next Start ends a
// postmaster that was left behind.
func dieWithParent(*syscall.SysProcAttr) {}

// passBlocked reports that closed folders cannot be passed.
func passBlocked(*syscall.SysProcAttr) bool { return false }

// worksIn believes the pid file: without /proc there is nothing to compare with.
func worksIn(int, string) bool { return true }

// sessions are unknown here; they notice by themselves that their postmaster died.
func sessions(string) []int { return nil }
