package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// The keys of log lines, declared once. A line about a unit of work uses these
// and no synonyms, so that one query finds it in every service.
const (
	KeyService    = "service"
	KeyReplica    = "replica"
	KeyDeliveryID = "delivery_id"
	KeyRepo       = "repo"
	KeyPR         = "pr"
	KeyHeadSHA    = "head_sha"
	KeyGeneration = "generation"
	KeyEpoch      = "epoch"
	KeyLeaseToken = "lease_token"
	KeyAttempt    = "attempt"
	KeyVia        = "via"
	KeyResult     = "result"
	KeyErr        = "err"
	KeyElapsedMS  = "elapsed_ms"
	// KeyAudit marks the one line written for each write to GitHub.
	KeyAudit = "audit"
)

// NewLogger writes JSON lines at or above level, with every secret that redact
// knows, and everything that looks like one, replaced (I10).
func NewLogger(w io.Writer, level slog.Level, redact *Redactor) *slog.Logger {
	return slog.New(&redactingHandler{next: slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}), redact: redact})
}

func parseLevel(s string) (slog.Level, error) {
	switch strings.ToLower(s) {
	case "debug":
		return slog.LevelDebug, nil
	case "", "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("%q is not a level; write debug, info, warn or error", s)
}
