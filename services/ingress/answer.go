package ingress

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// result names what became of a request: the label of countersign_ingress_deliveries_total. The set is closed.
type result string

// The results.
const (
	resultAccepted     result = "accepted"
	resultDuplicate    result = "duplicate"
	resultIgnored      result = "ignored"
	resultLimited      result = "limited"
	resultNoRoute      result = "no_route"
	resultUnconfigured result = "unconfigured"
	resultEnvelope     result = "bad_envelope"
	resultSignature    result = "bad_signature"
	resultTooLarge     result = "too_large"
	resultBody         result = "bad_body"
	resultPayload      result = "bad_payload"
	resultConflict     result = "conflict"
	resultGuard        result = "guard_timeout"
	resultStore        result = "store_failed"
	resultPanic        result = "panic"
)

// refusal is a reason not to accept a request whose text is safe to show to whoever sent it.
type refusal struct {
	status int
	result result
	text   string
}

func (r *refusal) Error() string { return r.text }

// The refusals that are known before the body is verified; each says what to mend.
var (
	errRate        = &refusal{http.StatusTooManyRequests, resultLimited, "too many requests"}
	errInFlight    = &refusal{http.StatusTooManyRequests, resultLimited, "too many requests in flight"}
	errMemory      = &refusal{http.StatusTooManyRequests, resultLimited, "too many bytes in flight"}
	errNoRoute     = &refusal{http.StatusNotFound, resultNoRoute, "only POST " + Route + " is served here"}
	errMethod      = &refusal{http.StatusMethodNotAllowed, resultNoRoute, "only POST " + Route + " is served here"}
	errBadDelivery = &refusal{http.StatusBadRequest, resultEnvelope, "header X-GitHub-Delivery: want one value of 1 to 128 visible ASCII characters"}
	errBadEvent    = &refusal{http.StatusBadRequest, resultEnvelope, "header X-GitHub-Event: want one value of 1 to 128 visible ASCII characters"}
	errBadLength   = &refusal{http.StatusBadRequest, resultEnvelope, "header Content-Length: want an integer that is not negative"}
	errTooLarge    = &refusal{http.StatusRequestEntityTooLarge, resultTooLarge, "body: want at most 10 MiB"}
	errBroken      = &refusal{http.StatusBadRequest, resultBody, "body: it did not arrive whole"}
	errForm        = &refusal{http.StatusBadRequest, resultPayload, "payload: want one JSON object in UTF-8, got a form; set the webhook's content type to application/json"}
	errPanicked    = &refusal{http.StatusInternalServerError, resultPanic, "internal error; nothing is promised to be stored"}
)

// answer is what a request gets.
type answer struct {
	status int
	result result
	body   any
}

// refuse maps an error to its answer, the one place that does. The text of an error that is not ours, such as the database's,
// stays in the log.
func refuse(err error) (answer, error) {
	var known *refusal
	var field *ghclient.FieldError
	switch {
	case errors.As(err, &known):
	case errors.As(err, &field):
		known = &refusal{http.StatusBadRequest, resultPayload, field.Error()} // names the field, never its value
	case errors.Is(err, ghclient.ErrBadSignature):
		known = &refusal{http.StatusUnauthorized, resultSignature, "header X-Hub-Signature-256: the body was not signed with a secret that is configured here"}
	case errors.Is(err, ghclient.ErrNoSecret):
		known = &refusal{http.StatusServiceUnavailable, resultUnconfigured, "no webhook secret is configured"}
	case errors.Is(err, store.ErrDeliveryConflict):
		known = &refusal{http.StatusServiceUnavailable, resultConflict, "this delivery id was already used for something else; nothing was stored"}
	case errors.Is(err, store.ErrGuardTimeout):
		known = &refusal{http.StatusServiceUnavailable, resultGuard, "a publication is under way; nothing was stored, send it again"}
	default:
		known = &refusal{http.StatusServiceUnavailable, resultStore, "the delivery could not be stored; send it again"}
	}
	return answer{known.status, known.result, struct {
		Error string `json:"error"`
	}{known.text}}, err
}

// acknowledge is the 202 of a request that was not refused (RG-116, RG-117).
func acknowledge(d *delivery) answer {
	body := struct {
		Accepted bool `json:"accepted"`
		Queued   bool `json:"queued"`
	}{Accepted: true}
	done := answer{status: http.StatusAccepted, result: resultAccepted}
	switch {
	case d.work.Why != "":
		done.result = resultIgnored
	case d.accepted.New:
		body.Queued = true
	default:
		done.result = resultDuplicate
		body.Accepted, body.Queued = false, d.reset
	}
	done.body = body
	return done
}

func (a answer) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	switch a.status {
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodPost)
	case http.StatusTooManyRequests:
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(a.status)
	// Whoever left early does not read it; the rows are what counts.
	_ = json.NewEncoder(w).Encode(a.body)
}

// report writes the one line of a request: why it was refused, why it asked for nothing, or what it left. No payload text but
// names that are row keys, and nothing of a body whose signature was not proved.
func (s *Server) report(ctx context.Context, d *delivery, done answer, err error) {
	attrs := []slog.Attr{
		slog.String(daemon.KeyResult, string(done.result)), slog.Int("status", done.status),
		slog.String(daemon.KeyDeliveryID, d.id), slog.String("event", d.event),
	}
	elapsed := slog.Int64(daemon.KeyElapsedMS, time.Since(d.began).Milliseconds())
	switch {
	case done.result == resultLimited:
		s.crowded.Do(func() {
			s.log.LogAttrs(ctx, slog.LevelWarn, "webhooks refused for load", append(attrs, slog.String("reason", err.Error()))...)
		})
	case err != nil:
		s.log.LogAttrs(ctx, slog.LevelWarn, "webhook refused", append(attrs, slog.String("reason", err.Error()), elapsed)...)
	case d.work.Why != "":
		s.log.LogAttrs(ctx, slog.LevelInfo, "webhook ignored", append(attrs, slog.String("action", shown(d.action)), slog.String("reason", string(d.work.Why)), elapsed)...)
	default:
		s.log.LogAttrs(ctx, slog.LevelInfo, "webhook accepted", append(append(attrs, slog.String("action", shown(d.action))), append(rowAttrs(d), elapsed)...)...)
	}
}

// rowAttrs name the rows that an accepted delivery left.
func rowAttrs(d *delivery) []slog.Attr {
	if w := d.work.Direct; w != nil {
		return []slog.Attr{
			slog.Int64("installation", int64(w.Installation)), slog.String(daemon.KeyRepo, w.FullName), slog.Int(daemon.KeyPR, w.Number),
			slog.String(daemon.KeyHeadSHA, string(w.Head)), slog.Int64(daemon.KeyGeneration, int64(d.accepted.HeadGeneration)),
			slog.String("fast_path", d.fastPath), slog.Bool("woken", d.woken),
		}
	}
	if w := d.work.Group; w != nil {
		return []slog.Attr{
			slog.Int64("installation", int64(w.Installation)), slog.String(daemon.KeyRepo, w.FullName), slog.String(daemon.KeyHeadSHA, string(w.Head)),
			slog.Int64(daemon.KeyGeneration, int64(d.accepted.HeadGeneration)), slog.Bool("woken", d.woken),
		}
	}
	w := d.work.Authority
	return []slog.Attr{
		slog.Int64("installation", int64(w.Installation)), slog.String("scope", string(w.Scope)),
		slog.String(daemon.KeyRepo, w.FullName), slog.Bool("woken", d.woken),
	}
}

// shown bounds a text of an event that is not stored, and so was not checked.
func shown(action string) string {
	if len(action) > maxHeader {
		return "(too long to show)"
	}
	return action
}
