//go:build chaos

package hook

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Built reports whether this binary can lose fences.
const Built = true

var (
	removed atomic.Pointer[map[Fence]bool]
	pace    atomic.Int64
	skew    atomic.Int64
)

// A process of a chaos run is told by its environment.
func init() {
	var fences []Fence
	for name := range strings.SplitSeq(os.Getenv("CHAOS_REMOVE"), ",") {
		if name != "" {
			fences = append(fences, Fence(name))
		}
	}
	Remove(fences...)
	n, _ := strconv.ParseInt(os.Getenv("CHAOS_PACE"), 10, 64)
	SetPace(n)
	offset, _ := time.ParseDuration(os.Getenv("CHAOS_SKEW"))
	skew.Store(int64(offset))
}

// Remove takes exactly these fences away, in the whole process.
func Remove(fences ...Fence) {
	set := map[Fence]bool{}
	for _, f := range fences {
		set[f] = true
	}
	removed.Store(&set)
}

// Removed reports whether a fence was taken away.
func Removed(f Fence) bool { return (*removed.Load())[f] }

// SetPace divides waits by n; 0 and 1 leave them.
func SetPace(n int64) { pace.Store(max(n, 1)) }

// Pace shortens a wait that a chaos run cannot sit through.
func Pace(d time.Duration) time.Duration { return d / time.Duration(pace.Load()) }

// Now is the clock of this process, wrong by the skew it was given.
func Now() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
