package ghclient

import (
	"errors"
	"fmt"
	"time"
)

// Every error of this package is one of these (errors.Is) or the context's own.
var (
	// ErrNotFound: 404 or 410. GitHub also answers so for what the token may not see.
	ErrNotFound = errors.New("github: not found")
	// ErrForbidden: 403 for want of a permission. Waiting doesn't help, an operator does.
	ErrForbidden = errors.New("github: forbidden")
	// ErrUnauthorized: 401 also after a fresh token.
	ErrUnauthorized = errors.New("github: unauthorized")
	// ErrSuspended: the installation was suspended by its owner.
	ErrSuspended = errors.New("github: installation suspended")
	// ErrInstallationGone: the installation no longer exists.
	ErrInstallationGone = errors.New("github: installation gone")
	// ErrRateLimited: a primary or secondary limit, or a pause that is still in force. errors.As *RateLimitError tells how long.
	ErrRateLimited = errors.New("github: rate limited")
	// ErrInvalid: 422 or 400. The request itself is at fault.
	ErrInvalid = errors.New("github: request refused as invalid")
	// ErrConflict: 409.
	ErrConflict = errors.New("github: conflict")
	// ErrMalformed: an answer that isn't what the route must answer. Never evidence.
	ErrMalformed = errors.New("github: malformed answer")
	// ErrTooLarge: more than we read, or more than GitHub gives.
	ErrTooLarge = errors.New("github: too large")
	// ErrUnavailable: 5xx, network failure or deadline on a READ. Later may work.
	ErrUnavailable = errors.New("github: unavailable")
	// ErrUnknownOutcome: a WRITE that may or may not have been applied. Read back before anything else.
	ErrUnknownOutcome = errors.New("github: outcome of the write is unknown")
	// ErrMoved: the route leads elsewhere (301), or what it leads to has another identity.
	ErrMoved = errors.New("github: route no longer leads to the expected repository")
)

// RateLimitError is ErrRateLimited with what is known of it.
type RateLimitError struct {
	After        time.Duration // wait at least this long; 1 s to 24 h (RG-271, RG-495)
	Kind         string        // primary, secondary or paused
	Installation int64         // 0: the App itself
}

func (e *RateLimitError) Error() string {
	return fmt.Sprintf("%v: %s limit of installation %d, retry after %s", ErrRateLimited, e.Kind, e.Installation, e.After)
}

// Is makes errors.Is(err, ErrRateLimited) true.
func (e *RateLimitError) Is(target error) bool { return target == ErrRateLimited }
