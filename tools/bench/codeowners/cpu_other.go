//go:build !unix

package main

import "time"

var started = time.Now()

// cpuTime is elapsed time where there is no simple clock of a process.
func cpuTime() time.Duration { return time.Since(started) }
