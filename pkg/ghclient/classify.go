package ghclient

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/countersign/countersign/internal/hook"
)

// Bounds of a retry delay (RG-271, RG-495).
const (
	minDelay     = time.Second
	maxDelay     = 24 * time.Hour
	defaultDelay = 60 * time.Second
)

// apiError is an error with the sentinel callers switch on, and the rest for people.
type apiError struct {
	sentinel error
	op       operation
	status   int    // 0: no answer
	text     string // GitHub's own words, made safe
	cause    error
}

func (e *apiError) Error() string {
	var b strings.Builder
	b.WriteString(e.sentinel.Error())
	b.WriteString(": ")
	b.WriteString(string(e.op))
	if e.status != 0 {
		fmt.Fprintf(&b, ": %d", e.status)
	}
	if e.text != "" {
		b.WriteString(": " + e.text)
	}
	if e.cause != nil {
		b.WriteString(": " + e.cause.Error())
	}
	return clip(b.String())
}

func (e *apiError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.sentinel}
	}
	return []error{e.sentinel, e.cause}
}

// errorBody is what GitHub says when it refuses. errors has three shapes: objects, strings, or none at all.
type errorBody struct {
	Message string            `json:"message"`
	Doc     string            `json:"documentation_url"`
	Errors  []json.RawMessage `json:"errors"`
}

type errorItem struct {
	Resource, Field, Code, Message string
}

// classify turns an answer that isn't a success into an error. It is the only place that reads status codes, for REST and for the
// HTTP layer of GraphQL; graphqlErrors reads what GraphQL says inside a 200.
func classify(c call, a answer, now time.Time) error {
	body := parseErrorBody(a)
	text := body.text(a)
	if limited(a, body.Message+" "+body.Doc) {
		return limitError(c, a, body.Message+" "+body.Doc, now)
	}
	if a.status == http.StatusBadRequest && strings.Contains(body.Message, "is not a supported version") {
		server := Server{Enterprise: a.header.Get("X-Github-Enterprise-Version")}
		text += fmt.Sprintf("; set COUNTERSIGN_GITHUB_API_VERSION to one that %s serves (%s)", server.name(), firstVersion)
	}
	fail := func(sentinel error) error {
		return &apiError{sentinel: sentinel, op: c.op, status: a.status, text: text}
	}
	switch {
	case a.status >= 300 && a.status < 400 && a.status != http.StatusNotModified:
		return fail(ErrMoved)
	case a.status == http.StatusUnauthorized:
		return fail(ErrUnauthorized)
	case a.status == http.StatusForbidden && strings.Contains(strings.ToLower(text), "installation has been suspended"):
		return fail(ErrSuspended)
	case a.status == http.StatusForbidden, a.status == http.StatusUnavailableForLegalReasons:
		return fail(ErrForbidden)
	case a.status == http.StatusNotFound, a.status == http.StatusGone:
		return fail(ErrNotFound)
	case a.status == http.StatusConflict:
		return fail(ErrConflict)
	case a.status == http.StatusRequestEntityTooLarge, body.tooLarge():
		return fail(ErrTooLarge)
	case a.status == http.StatusUnprocessableEntity && strings.HasPrefix(body.Message, "No commit found for SHA"):
		return fail(ErrNotFound) // GitHub's way to say that a ref doesn't exist
	case a.status == http.StatusRequestTimeout, a.status >= 500:
		if c.write {
			return fail(ErrUnknownOutcome)
		}
		return fail(ErrUnavailable)
	case a.status >= 400:
		return fail(ErrInvalid)
	}
	return fail(ErrMalformed)
}

// limited is RG-272, widened by the texts of the abuse limit, which older answers carry without any header.
func limited(a answer, text string) bool {
	if a.status == http.StatusTooManyRequests {
		return true
	}
	if a.status != http.StatusForbidden {
		return false
	}
	return a.header.Get("Retry-After") != "" || a.header.Get("X-Ratelimit-Remaining") == "0" || limitText(text)
}

func limitText(text string) bool {
	text = strings.ToLower(text)
	for _, mark := range []string{"rate limit", "abuse detection", "abuse-rate-limits", "secondary-rate-limits"} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}

func limitError(c call, a answer, text string, now time.Time) error {
	kind := "secondary"
	if a.header.Get("X-Ratelimit-Remaining") == "0" && !strings.Contains(strings.ToLower(text), "secondary") {
		kind = "primary"
	}
	return &RateLimitError{After: hook.Pace(retryDelay(a.header, now)), Kind: kind, Installation: c.installation}
}

// retryDelay is RG-271: Retry-After in seconds or as a date, else the reset of the budget, else a minute; 1 s to 24 h.
// The reset speaks of the hourly budget. An answer that says this budget isn't used up was refused for another reason, and the wait
// for that is GitHub's documented minute (decision 0053).
func retryDelay(h http.Header, now time.Time) time.Duration {
	if text := strings.TrimSpace(h.Get("Retry-After")); text != "" {
		if seconds, err := strconv.ParseFloat(text, 64); err == nil {
			return clampSeconds(seconds)
		}
		if at, err := http.ParseTime(text); err == nil {
			return clampDelay(at.Sub(now))
		}
	}
	if remaining, err := strconv.ParseInt(h.Get("X-Ratelimit-Remaining"), 10, 64); err == nil && remaining > 0 {
		return defaultDelay
	}
	if reset, err := strconv.ParseFloat(strings.TrimSpace(h.Get("X-Ratelimit-Reset")), 64); err == nil {
		return clampSeconds(reset - float64(now.UnixNano())/1e9)
	}
	return defaultDelay
}

func clampSeconds(s float64) time.Duration {
	switch {
	case math.IsNaN(s) || math.IsInf(s, 0):
		return defaultDelay
	case s > maxDelay.Seconds(): // before the conversion, which would overflow
		return maxDelay
	case s < minDelay.Seconds():
		return minDelay
	}
	return clampDelay(time.Duration(math.Ceil(s)) * time.Second)
}

func clampDelay(d time.Duration) time.Duration { return min(max(d, hook.Pace(minDelay)), maxDelay) }

func parseErrorBody(a answer) errorBody {
	var body errorBody
	if err := json.Unmarshal(a.body, &body); err != nil {
		return errorBody{} // HTML of a proxy, or cut short: the status speaks alone
	}
	return body
}

func (b errorBody) items() []errorItem {
	var items []errorItem
	for _, raw := range b.Errors {
		var item errorItem
		var text string
		switch {
		case json.Unmarshal(raw, &text) == nil:
			items = append(items, errorItem{Message: text})
		case json.Unmarshal(raw, &item) == nil:
			items = append(items, item)
		}
	}
	return items
}

func (b errorBody) tooLarge() bool {
	for _, item := range b.items() {
		if item.Code == "too_large" {
			return true
		}
	}
	return false
}

// text is what GitHub said, in one line.
func (b errorBody) text(a answer) string {
	if b.Message == "" {
		if kind := a.header.Get("Content-Type"); kind != "" && len(a.body) > 0 {
			return clip("no message, content type " + kind)
		}
		return ""
	}
	parts := []string{b.Message}
	for _, item := range b.items() {
		detail := strings.TrimSpace(strings.Join([]string{item.Resource, item.Field, item.Code, item.Message}, " "))
		if detail != "" {
			parts = append(parts, detail)
		}
	}
	return clip(strings.Join(parts, "; "))
}

// maxErrorText is RG-496.
const maxErrorText = 1000

// credential matches what must never be printed, wherever it came from: installation tokens short and long, other GitHub tokens, JSON
// web tokens, old v1 tokens and authorization header values.
var credential = regexp.MustCompile(`(?i)gh[a-z]_[A-Za-z0-9_.\-]+|github_pat_[A-Za-z0-9_]+|eyJ[A-Za-z0-9_\-]{8,}[A-Za-z0-9_.\-]*|v1\.[0-9a-f]{32,}|(bearer|token)\s+[A-Za-z0-9_.\-]{16,}|-----BEGIN[^-]*-----[^-]*(-----END[^-]*-----)?`)

// clip makes a text safe to print: one line, at most 1000 characters, no credential, no control or format characters.
func clip(s string) string {
	if len(s) > 8*maxErrorText { // enough for 1000 characters of any width; bounds the work below
		s = s[:8*maxErrorText]
	}
	s = credential.ReplaceAllString(strings.ToValidUTF8(s, "?"), "[redacted]")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) <= maxErrorText {
		return s
	}
	return string([]rune(s)[:maxErrorText-1]) + "…"
}
