package measure

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc's times (USER_HZ), which is the same on every architecture Go runs on.
const tick = 10 * time.Millisecond

// CPUTime is what this process and the server with all its processes have used so far; 0 where there is no /proc.
// A busy machine changes how long something takes, and hardly what it costs.
func CPUTime(postmaster int) time.Duration {
	total := ticks(os.Getpid(), 2)
	total += ticks(postmaster, 4) // with its children that have ended
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	for _, path := range all {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && parent(pid) == postmaster {
			total += ticks(pid, 2)
		}
	}
	return time.Duration(total) * tick
}

// stat is the part of /proc/<pid>/stat behind the name: state, parent, …
func stat(pid int) []string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil // it has ended
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

func parent(pid int) int {
	f := stat(pid)
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(f[1])
	return n
}

// ticks adds the first n of utime, stime, cutime, cstime.
func ticks(pid, n int) int {
	f := stat(pid)
	if len(f) < 11+n {
		return 0
	}
	sum := 0
	for _, text := range f[11 : 11+n] {
		t, _ := strconv.Atoi(text)
		sum += t
	}
	return sum
}
