package nudge

import (
	"errors"
	"time"
)

// Subject names the queue of one service. It is a NATS subject and nothing more:
// what a message on it says is a hint.
type Subject string

// The subjects of the stream. One service consumes each; which service may
// publish on which is Permissions.
const (
	Invalidate Subject = "countersign.v1.invalidate"
	Fanout     Subject = "countersign.v1.fanout"
	Evaluate   Subject = "countersign.v1.evaluate"
	// Reconcile asks the reconciler to look now: an installation returned, an
	// operator asked, an outage ended.
	Reconcile Subject = "countersign.v1.reconcile"
)

// askInvalidate is the fast path's request subject. It is outside the stream on
// purpose: a request that nobody is there to answer must fail at once.
const askInvalidate = "countersign.v1.ask.invalidate"

// StreamName is the one JetStream stream of an installation of Countersign.
const StreamName = "COUNTERSIGN"

// Subjects lists the subjects of the stream in the order work flows through them.
func Subjects() []Subject { return []Subject{Invalidate, Fanout, Evaluate, Reconcile} }

// Wake says that a committed row probably has work. Send it after the commit,
// never before: a receiver claims from Postgres at once.
type Wake struct {
	Subject        Subject
	InstallationID int64
	// RepositoryID is zero when the work is the whole installation's.
	RepositoryID int64
	// PullNumber is zero when the work is a head's or an authority's.
	PullNumber int
	HeadSHA    string
	// AtLeastGeneration is the generation the sender committed.
	AtLeastGeneration int64
	// Traceparent is the W3C trace context; Bus.Wake fills it from its ctx when empty.
	Traceparent string
	// SentAt is set by Bus.Wake.
	SentAt time.Time
}

// InvalidateRequest asks for the managed check of one accepted head to be reset
// now. It carries row keys only (RG-130 to RG-146).
type InvalidateRequest struct {
	DeliveryID     string
	InstallationID int64
	RepositoryID   int64
	PullNumber     int
	HeadSHA        string
	// HeadGeneration is the generation the delivery created; it fences every write (RG-132).
	HeadGeneration int64
	// Traceparent is filled by AskInvalidate from its ctx when empty.
	Traceparent string
}

// Outcome says what an invalidator did with an InvalidateRequest. The zero value
// is OutcomeFailed, so a reply that says nothing claims nothing.
type Outcome int

// The outcomes of a fast reset.
const (
	// OutcomeFailed: the reset did not succeed; the durable pass will do it.
	OutcomeFailed Outcome = iota
	// OutcomeReset: the managed check is proved unfinished and the invalidator wrote it.
	OutcomeReset
	// OutcomeNothing: nothing had to be written (no managed check, or the pull request is closed: RG-137, RG-138).
	OutcomeNothing
	// OutcomeSuperseded: that generation is already invalidated, or a newer one exists (RG-132).
	OutcomeSuperseded
	// OutcomeRateLimited: GitHub's rate limit is in force, the pause is stored, nothing was written (RG-144, RG-145).
	OutcomeRateLimited
)

// String is the outcome as a metric label: one of a closed set.
func (o Outcome) String() string {
	switch o {
	case OutcomeReset:
		return "reset"
	case OutcomeNothing:
		return "nothing"
	case OutcomeSuperseded:
		return "superseded"
	case OutcomeRateLimited:
		return "rate_limited"
	default:
		return "failed"
	}
}

// InvalidateReply is the answer of an invalidator.
type InvalidateReply struct {
	Outcome Outcome
	// QueuedLiveHead: the pull request has moved and durable work for its live head was recorded (RG-134, RG-117).
	QueuedLiveHead bool
}

var (
	// ErrUnavailable: NATS is not connected. Everything still converges by polling (I7).
	ErrUnavailable = errors.New("nats is not connected")
	// ErrNoResponder: NATS is up and no invalidator is subscribed.
	ErrNoResponder = errors.New("no invalidator is listening")
	// ErrDrain: a Step was still running when the grace ended and was cancelled.
	ErrDrain = errors.New("work was still running at the end of the grace")
)
