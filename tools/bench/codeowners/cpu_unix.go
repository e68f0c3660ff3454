//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time of this process, the garbage collector's included:
// other processes of the machine do not change what is compared.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // cannot happen with valid arguments
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
