package localpg

import "syscall"

// dieWithParent asks the kernel to shut the server down at once (SIGQUIT, which
// PostgreSQL calls immediate shutdown) when we die, by whatever signal.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
