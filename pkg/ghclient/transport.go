package ghclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// operation names what a request is for; it is a metric label, so the set is closed.
type operation string

// call is one request before it is sent.
type call struct {
	op           operation
	method       string
	path         string // escaped, relative to the API's base; ignored when target is set
	query        url.Values
	target       string // absolute; GraphQL only
	body         []byte
	accept       string
	write        bool // changes something at GitHub, so an uncertain outcome is ErrUnknownOutcome
	installation int64
	perms        Permissions // nil: as the App
	resource     resource
	noContent    bool     // a success without a JSON body is fine
	raw          bool     // the body is a file's bytes
	tolerated    []string // GraphQL aliases that may be missing
	version      string   // REST API version; "" is the configured one
	form         bool     // the body is a web form's, as GitHub's sign-in takes it
}

// answer is a response that was read completely.
type answer struct {
	status int
	header http.Header
	body   []byte
}

const (
	acceptJSON = "application/vnd.github+json"
	acceptRaw  = "application/vnd.github.raw+json"
	// maxBody is more than any answer we ask for: a recursive tree is 7 MB, and no file above 64 MiB is of use to us.
	maxBody = 64 << 20
)

// send makes the request and classifies its answer: a nil error means a 2xx whose body was read whole and is what was asked for.
// It waits for a slot in the lane of ctx; from then on everything, a token exchange and the one retry included, must fit into
// Config.RequestTimeout (RG-422). Identical reads share a request that has not been sent yet.
func (a *App) send(ctx context.Context, c call) (answer, error) {
	if c.write {
		got, err := a.sendAlone(ctx, c, func() {})
		a.count(c, err, got)
		return got, err
	}
	got, err, shared := a.flights.do(ctx, c.key(laneOf(ctx)), func(ctx context.Context, sent func()) (answer, error) {
		return a.sendAlone(ctx, c, sent)
	})
	if shared {
		a.metrics.requests.WithLabelValues(string(c.op), "shared").Inc()
	} else {
		a.count(c, err, got)
	}
	return got, err
}

// key is equal for requests whose answers are interchangeable.
func (c call) key(l Lane) string {
	return fmt.Sprintf("%d|%s|%s|%s %s?%s%s|%s|%s", c.installation, c.perms.key(), l, c.method, c.path, c.query.Encode(), c.target, c.accept, c.body)
}

// ledger is whose budget the request draws on: the App's own requests are counted apart from the installation's.
func (c call) ledger() int64 {
	if c.perms == nil {
		return 0
	}
	return c.installation
}

func (a *App) sendAlone(ctx context.Context, c call, sent func()) (answer, error) {
	lane := laneOf(ctx)
	if err := a.budgets.admit(ctx, c.installation, lane, c.resource); err != nil {
		return answer{}, err
	}
	began := time.Now()
	if err := a.gate.acquire(ctx, lane); err != nil {
		return answer{}, err
	}
	defer a.gate.release(lane)
	a.metrics.waiting.WithLabelValues(lane.String()).Observe(time.Since(began).Seconds())
	// Again: another request may have been refused while this one waited.
	if err := a.budgets.admit(ctx, c.installation, lane, c.resource); err != nil {
		return answer{}, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, a.cfg.RequestTimeout, errDeadline)
	defer cancel()
	for attempt := 0; ; attempt++ {
		got, used, err := a.attempt(bounded, c, sent)
		if errors.Is(err, ErrUnauthorized) && used != "" && c.perms != nil && attempt == 0 {
			a.tokens.evict(c.installation, c.perms, used) // RG-245
			continue
		}
		if errors.Is(err, errDeadline) && !errors.Is(err, ErrUnknownOutcome) && !errors.Is(err, ErrUnavailable) {
			err = &apiError{sentinel: ErrUnavailable, op: c.op, cause: errDeadline} // before anything was sent
		}
		return got, err
	}
}

var errDeadline = errors.New("no complete answer within the request timeout")

// attempt is one round trip. used is the credential it was sent with.
func (a *App) attempt(ctx context.Context, c call, sent func()) (got answer, used string, err error) {
	if used, err = a.credential(ctx, c); err != nil {
		return answer{}, "", err
	}
	req, err := a.request(ctx, c, used)
	if err != nil {
		return answer{}, used, err
	}
	cacheKey := ""
	var old cached
	if c.method == http.MethodGet {
		cacheKey = c.key(0)
		if hit, ok := a.validators.get(cacheKey); ok {
			old = hit
			req.Header.Set("If-None-Match", hit.etag)
		}
	}
	sent()
	began := time.Now()
	got, err = a.roundTrip(req, c)
	a.metrics.latency.WithLabelValues(string(c.op)).Observe(time.Since(began).Seconds())
	if err != nil {
		return got, used, err
	}
	if got.status != http.StatusUnauthorized {
		// A refused token is counted on the budget of the address it came from, of 60 an hour: that is no installation's.
		a.budgets.observe(c.ledger(), c.resource, got.header)
	}
	if got.status == http.StatusNotModified && old.etag != "" {
		return answer{status: http.StatusNotModified, header: old.header, body: old.body}, used, nil
	}
	if err := a.judge(ctx, c, got); err != nil {
		return got, used, err
	}
	if cacheKey != "" && got.status == http.StatusOK {
		a.validators.put(cacheKey, got)
	}
	return got, used, nil
}

// judge turns everything but the success that was asked for into an error, and remembers refusals.
func (a *App) judge(ctx context.Context, c call, got answer) error {
	var err error
	switch {
	case got.status < 200 || got.status > 299:
		err = classify(c, got, a.now())
	default:
		if err = wellFormed(c, got); err == nil && c.resource == graphql {
			err = graphqlErrors(c, got, a.now())
		}
	}
	var limit *RateLimitError
	if errors.As(err, &limit) {
		a.budgets.refused(ctx, limit, c.resource)
	}
	return err
}

// wellFormed checks that a success has the kind of body that was asked for. What a write answered can't undo it: its outcome is unknown.
func wellFormed(c call, got answer) error {
	if c.raw || c.noContent && len(bytes.TrimSpace(got.body)) == 0 {
		return nil
	}
	problem := ""
	if kind, _, _ := mime.ParseMediaType(got.header.Get("Content-Type")); kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		problem = fmt.Sprintf("content type %q where JSON was asked for", got.header.Get("Content-Type"))
	} else if _, ok := scanJSON(got.body); !ok {
		problem = "the body is not JSON or was cut short"
	}
	if problem == "" {
		return nil
	}
	malformed := &apiError{sentinel: ErrMalformed, op: c.op, status: got.status, text: clip(problem)}
	if c.write {
		return &apiError{sentinel: ErrUnknownOutcome, op: c.op, status: got.status, cause: malformed}
	}
	return malformed
}

func (a *App) request(ctx context.Context, c call, credential string) (*http.Request, error) {
	target := c.target
	if target == "" {
		target = a.rest.String() + strings.TrimPrefix(c.path, "/")
		if len(c.query) > 0 {
			target += "?" + c.query.Encode()
		}
	}
	req, err := http.NewRequestWithContext(ctx, c.method, target, bytes.NewReader(c.body))
	if err != nil {
		return nil, &apiError{sentinel: ErrInvalid, op: c.op, text: "the route cannot be written as a URL"}
	}
	if testing.Testing() && !loopback(req.URL.Hostname()) {
		return nil, fmt.Errorf("%s: a test may send requests to loopback addresses only, not to %s", c.op, req.URL.Host)
	}
	accept := c.accept
	if accept == "" {
		accept = acceptJSON
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer "+credential)
	req.Header.Set("User-Agent", "countersign")
	req.Header.Set("X-GitHub-Api-Version", cmp.Or(c.version, a.cfg.APIVersion))
	switch {
	case c.form:
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	case len(c.body) > 0:
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// roundTrip sends and reads the whole body. It uses the RoundTripper itself: no redirect is followed, no cookie kept.
func (a *App) roundTrip(req *http.Request, c call) (answer, error) {
	resp, err := a.http.RoundTrip(req)
	if err != nil {
		return answer{}, networkError(req.Context(), c, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	got := answer{status: resp.StatusCode, header: resp.Header, body: body}
	switch {
	case err != nil && resp.StatusCode < 300:
		return got, networkError(req.Context(), c, err)
	case len(body) > maxBody:
		return got, &apiError{sentinel: ErrTooLarge, op: c.op, status: resp.StatusCode, text: "the answer is larger than 64 MiB"}
	}
	return got, nil
}

// networkError is what no answer means. A read is merely unavailable. A write may have been applied, unless the connection was never made.
func networkError(ctx context.Context, c call, err error) error {
	cause := err
	if ctx.Err() != nil {
		cause = endOf(ctx)
	}
	var dial *net.OpError
	neverSent := errors.As(err, &dial) && dial.Op == "dial"
	switch {
	case c.write && !neverSent:
		return &apiError{sentinel: ErrUnknownOutcome, op: c.op, cause: cause}
	case ctx.Err() != nil && !errors.Is(cause, errDeadline):
		return cause
	}
	return &apiError{sentinel: ErrUnavailable, op: c.op, cause: cause}
}

// endOf is why ctx ended: our own bound, or the caller's context error.
func endOf(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errDeadline) {
		return errDeadline
	}
	return ctx.Err()
}

// count records how a request ended.
func (a *App) count(c call, err error, got answer) {
	outcome := outcomeOf(err)
	if err == nil && got.status == http.StatusNotModified {
		outcome = "not_modified"
	}
	a.metrics.requests.WithLabelValues(string(c.op), outcome).Inc()
}

// outcomeOf maps an error to its metric label.
func outcomeOf(err error) string {
	var limit *RateLimitError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &limit) && (limit.Kind == "paused" || limit.Kind == "reserved"):
		return "refused"
	}
	for _, o := range []struct {
		sentinel error
		label    string
	}{
		{ErrRateLimited, "rate_limited"}, {ErrUnknownOutcome, "unknown_outcome"}, {ErrNotFound, "not_found"}, {ErrForbidden, "forbidden"},
		{ErrUnauthorized, "unauthorized"}, {ErrSuspended, "suspended"}, {ErrInstallationGone, "installation_gone"}, {ErrInvalid, "invalid"},
		{ErrConflict, "conflict"}, {ErrMalformed, "malformed"}, {ErrTooLarge, "too_large"}, {ErrMoved, "moved"},
		{ErrUnavailable, "unavailable"}, {context.Canceled, "cancelled"}, {context.DeadlineExceeded, "cancelled"},
	} {
		if errors.Is(err, o.sentinel) {
			return o.label
		}
	}
	return "other"
}
