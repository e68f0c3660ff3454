package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"sort"
	"strings"
	"sync"
)

// redacted stands where a secret stood.
const redacted = "[redacted]"

// shortestSecret is the length below which a known value is not replaced by
// search: a two-letter password would turn every log line to confetti.
const shortestSecret = 6

// Redactor replaces secrets in text: the values it was given, and the shapes
// that credentials have. Safe for concurrent use.
type Redactor struct {
	mu    sync.RWMutex
	known []string
}

// Add teaches the redactor values that must never be written. A URL also
// teaches its password, as written and decoded. Values under six bytes are ignored.
func (r *Redactor) Add(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range secrets {
		r.add(strings.TrimSpace(s))
	}
	// Longest first: a URL is replaced whole before its password is.
	sort.Slice(r.known, func(i, j int) bool { return len(r.known[i]) > len(r.known[j]) })
}

func (r *Redactor) add(s string) {
	if len(s) < shortestSecret {
		return
	}
	r.known = append(r.known, s)
	if quoted, err := json.Marshal(s); err == nil && string(quoted[1:len(quoted)-1]) != s {
		r.known = append(r.known, string(quoted[1:len(quoted)-1]))
	}
	u, err := url.Parse(s)
	if err != nil || u.User == nil {
		return
	}
	if password, ok := u.User.Password(); ok && len(password) >= shortestSecret {
		r.known = append(r.known, password, url.QueryEscape(password), url.PathEscape(password))
	}
}

// shapes are the credentials that are recognised wherever they appear. Each
// keeps what surrounds the secret, so that the line still says what it was.
var shapes = []struct {
	find    *regexp.Regexp
	replace string
}{
	// GitHub tokens: https://docs.github.com/en/authentication, "token formats".
	{regexp.MustCompile(`\b(gh[pousr]_|github_pat_)[A-Za-z0-9_]{16,}`), "${1}" + redacted},
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*(PRIVATE KEY|USER NKEY SEED)-----.*?(-----END [A-Z0-9 ]*-----|------END [A-Z0-9 ]*------|\z)`), redacted},
	// A JWT: the App's own assertion, or a NATS user's.
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]+)?`), redacted},
	// An NKey seed: S, its role, 56 base32 digits.
	{regexp.MustCompile(`\bS[UAONCX][A-Z2-7]{56}\b`), redacted},
	{regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^\s/?#:@"\\]*:)[^\s/?#@"\\]+@`), "${1}" + redacted + "@"},
	{regexp.MustCompile(`(?i)\b(bearer|basic|token) +[A-Za-z0-9._~+/=-]{16,}`), "${1} " + redacted},
	{regexp.MustCompile(`(?i)\b(password|secret|passwd)=[^\s&"\\]+`), "${1}=" + redacted},
}

// String returns s with every secret replaced.
func (r *Redactor) String(s string) string {
	if r != nil {
		r.mu.RLock()
		for _, k := range r.known {
			s = strings.ReplaceAll(s, k, redacted)
		}
		r.mu.RUnlock()
	}
	for _, shape := range shapes {
		s = shape.find.ReplaceAllString(s, shape.replace)
	}
	return s
}

// secretKey matches attribute keys whose value is never written, whatever it
// looks like. lease_token is a number that rises, not a secret.
var secretKey = regexp.MustCompile(`(?i)(secret|password|passwd|private_key|authorization|credential|seed|(^|_)token$|api_key)`)

func isSecretKey(key string) bool {
	return key != KeyLeaseToken && secretKey.MatchString(key)
}

// redactingHandler replaces secrets in the message and in every attribute.
type redactingHandler struct {
	next   slog.Handler
	redact *Redactor
}

func (h *redactingHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.next.Enabled(ctx, l)
}

func (h *redactingHandler) Handle(ctx context.Context, rec slog.Record) error {
	out := slog.NewRecord(rec.Time, rec.Level, h.redact.String(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

func (h *redactingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return &redactingHandler{next: h.next.WithAttrs(clean), redact: h.redact}
}

func (h *redactingHandler) WithGroup(name string) slog.Handler {
	return &redactingHandler{next: h.next.WithGroup(name), redact: h.redact}
}

func (h *redactingHandler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		group := v.Group()
		clean := make([]slog.Attr, len(group))
		for i, g := range group {
			clean[i] = h.attr(g)
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(clean...)}
	}
	if isSecretKey(a.Key) {
		return slog.String(a.Key, redacted)
	}
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.redact.String(v.String()))
	case slog.KindAny:
		return slog.Attr{Key: a.Key, Value: h.any(v.Any())}
	default:
		return slog.Attr{Key: a.Key, Value: v}
	}
}

// any cleans a value of no slog kind. It keeps the value's own JSON unless a
// secret is in it; then the cleaned text takes its place.
func (h *redactingHandler) any(v any) slog.Value {
	switch x := v.(type) {
	case nil:
		return slog.AnyValue(nil)
	case error:
		return slog.StringValue(h.redact.String(x.Error()))
	case fmt.Stringer:
		return slog.StringValue(h.redact.String(x.String()))
	}
	text, err := json.Marshal(v)
	if err != nil {
		return slog.StringValue(h.redact.String(fmt.Sprintf("%+v", v)))
	}
	if clean := h.redact.String(string(text)); clean != string(text) {
		return slog.StringValue(clean)
	}
	return slog.AnyValue(v)
}
