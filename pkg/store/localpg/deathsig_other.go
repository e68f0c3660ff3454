//go:build !linux

package localpg

import "syscall"

// dieWithParent does nothing: only Linux can signal a child when its parent is
// killed. A server that outlives its parent here keeps its directory's
// postmaster.pid, and the next Start on that directory says so.
func dieWithParent(*syscall.SysProcAttr) {}
