package reconciler

import (
	"errors"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// reasonCodes are the fixed words for why something was left out: a closed set, used in logs and as a metric label (RG-426).
// The first that matches names it.
var reasonCodes = []struct {
	target error
	code   string
}{
	{errLost, "lease_lost"}, {store.ErrLeaseLost, "lease_lost"}, {errStopping, "stopping"}, {errQueue, "queue"},
	{ghclient.ErrRateLimited, "rate_limited"}, {ghclient.ErrSuspended, "suspended"}, {ghclient.ErrInstallationGone, "gone"},
	{ghclient.ErrMalformed, "malformed"}, {ghclient.ErrTooLarge, "too_large"}, {ghclient.ErrNotFound, "not_found"},
	{ghclient.ErrForbidden, "forbidden"}, {ghclient.ErrUnauthorized, "unauthorized"}, {ghclient.ErrMoved, "moved"},
	{ghclient.ErrInvalid, "invalid"}, {ghclient.ErrUnavailable, "unavailable"},
}

func reason(err error) string {
	for _, r := range reasonCodes {
		if errors.Is(err, r.target) {
			return r.code
		}
	}
	return "other"
}

// ofInstallation reports whether the error would be the same for every other repository of the installation.
func ofInstallation(err error) bool {
	for _, target := range []error{
		ghclient.ErrRateLimited, ghclient.ErrSuspended, ghclient.ErrInstallationGone, ghclient.ErrUnauthorized,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
