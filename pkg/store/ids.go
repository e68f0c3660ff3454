package store

import (
	"fmt"
	"regexp"
	"time"
)

// Identity is numeric (D2); a full name is only a route.
type (
	// InstallationID is GitHub's id of an App installation.
	InstallationID int64
	// RepositoryID is GitHub's id of a repository.
	RepositoryID int64
	// DeliveryID is the X-GitHub-Delivery header, the deduplication key of a webhook (RG-101).
	DeliveryID string
	// SHA is a commit id: 40 or 64 lower-case hexadecimal characters (RG-033).
	SHA string
	// Generation counts accepted triggers of a pull request or of a head; it only rises.
	Generation int64
	// Epoch counts installation-wide authority changes; it only rises (RG-221…223).
	Epoch int64
	// Token is granted with a lease, from one rising sequence; every later write repeats it.
	Token int64
	// DecisionID numbers decisions in one database.
	DecisionID int64
	// Lane orders work; a lower lane is drawn first.
	Lane int16
)

// The lanes, first drawn first.
const (
	LaneInteractive Lane = 0
	LaneFanout      Lane = 1
	LaneReconcile   Lane = 2
	LaneRecheck     Lane = 3
)

// Lanes are all of them, the most urgent first.
var Lanes = []Lane{LaneInteractive, LaneFanout, LaneReconcile, LaneRecheck}

// String names the lane as a metric label.
func (l Lane) String() string {
	switch l {
	case LaneInteractive:
		return "interactive"
	case LaneFanout:
		return "fanout"
	case LaneReconcile:
		return "reconcile"
	case LaneRecheck:
		return "recheck"
	}
	return "unknown"
}

var shaForm = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Valid reports whether the text is a commit id in the one form this store keeps.
func (s SHA) Valid() bool { return shaForm.MatchString(string(s)) }

// HeadKey names one exact head: a check belongs to a commit of a repository, not to a pull request.
type HeadKey struct {
	Installation InstallationID
	Repository   RepositoryID
	SHA          SHA
}

// String is for errors and logs.
func (k HeadKey) String() string {
	return fmt.Sprintf("installation %d repository %d head %s", k.Installation, k.Repository, k.SHA)
}

// PullKey names one pull request.
type PullKey struct {
	Installation InstallationID
	Repository   RepositoryID
	Number       int
}

// String is for errors and logs.
func (k PullKey) String() string {
	return fmt.Sprintf("installation %d repository %d pull %d", k.Installation, k.Repository, k.Number)
}

// Watermark is what a trigger's payload promised to be visible: a lower bound for a later read, never evidence (P5).
type Watermark struct {
	Head        SHA
	UpdatedAt   time.Time // zero: the payload carried none
	ReviewID    int64     // zero: the trigger was not a review
	ReviewState string
}

// nullTime stores the zero time as NULL.
func nullTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// timeOf reads NULL as the zero time.
func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
