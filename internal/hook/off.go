//go:build !chaos

package hook

import "time"

// Built reports whether this binary can lose fences: never, in a normal build.
const Built = false

// Removed reports whether a fence was taken away: never, in a normal build.
func Removed(Fence) bool { return false }

// Pace shortens a wait that a chaos run cannot sit through; in a normal build it is d.
func Pace(d time.Duration) time.Duration { return d }

// Now is the clock of this process; a chaos run sets it wrong.
func Now() time.Time { return time.Now() }
