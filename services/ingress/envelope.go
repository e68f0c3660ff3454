package ingress

import (
	"errors"
	"mime"
	"net/http"
	"strconv"

	"github.com/countersign/countersign/pkg/ghclient"
)

const (
	// maxHeader bounds the two headers that name a delivery (RG-024, RG-025).
	maxHeader = 128
	// maxText bounds what of a payload becomes a column. The longest ref git allows is far below it, and an index row takes it.
	maxText = 1024
)

// readEnvelope checks everything that can be known before the body is read. secretsSet is false when nothing can be verified,
// and then nothing is accepted (RG-031).
func (d *delivery) readEnvelope(r *http.Request, secretsSet bool) error {
	switch {
	case r.URL.Path != Route: // RG-479
		return errNoRoute
	case r.Method != http.MethodPost:
		return errMethod
	case !secretsSet:
		return ghclient.ErrNoSecret
	}
	var ok bool
	if d.id, ok = token(r.Header, "X-GitHub-Delivery"); !ok {
		return errBadDelivery
	}
	if d.event, ok = token(r.Header, "X-GitHub-Event"); !ok {
		return errBadEvent
	}
	if values := r.Header.Values("X-Hub-Signature-256"); len(values) == 1 {
		d.sign = values[0] // none and several are both no signature
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	d.form = err == nil && media == "application/x-www-form-urlencoded"
	return checkLength(r)
}

// token is a header that must be there once and be a name: 1 to 128 visible ASCII characters. Anything else could not be a
// row's key, or would be read differently by whatever stands before us.
func token(h http.Header, name string) (string, bool) {
	values := h.Values(name)
	if len(values) != 1 || values[0] == "" || len(values[0]) > maxHeader {
		return "", false
	}
	for i := range len(values[0]) {
		if c := values[0][i]; c <= ' ' || c > '~' {
			return "", false
		}
	}
	return values[0], true
}

// checkLength refuses by Content-Length, before a byte of the body is read (RG-026, RG-028).
func checkLength(r *http.Request) error {
	if text := r.Header.Get("Content-Length"); text != "" {
		if _, err := strconv.ParseUint(text, 10, 63); err != nil {
			return errBadLength
		}
	}
	switch {
	case r.ContentLength > MaxBody:
		return errTooLarge
	case r.ContentLength < -1: // -1: not declared, so that the body is bounded while it streams
		return errBadLength
	}
	return nil
}

// forgive acknowledges an event that asks for nothing even where a field is not what it must be: fields are required of what
// creates work (RG-032, RG-036), so a description edited without an installation is 202, not 400. The body itself and its
// action are required of every event (RG-029, RG-030). Where the answer "nothing" rests on the repository's name, that name
// must have been readable.
func (d *delivery) forgive(e ghclient.Event, err error) (ghclient.Event, error) {
	var field *ghclient.FieldError
	if !errors.As(err, &field) || field.Field == "action" {
		return e, err
	}
	if field.Field == "" {
		if d.form {
			err = errForm
		}
		return e, err
	}
	if Classify(e).Why == "" || (restsOnName(e.Name) && e.Repository.FullName == "") {
		return e, err
	}
	return e, nil
}

// restsOnName reports whether Classify looks at which repository an event is about.
func restsOnName(event string) bool {
	switch event {
	case "pull_request", "pull_request_review", "check_run", "push", "repository":
		return true
	}
	return false
}

// storable refuses text that Postgres cannot keep: it would be answered 503 and sent again for ever. Only a mapped event is
// stored, and only these fields of it are text without a form of their own.
func storable(e ghclient.Event) error {
	if !e.Mapped {
		return nil
	}
	texts := []struct{ field, text string }{
		{"action", e.Action},
		{"repository.full_name", e.Repository.FullName},
		{"installation.account.login", e.AccountLogin},
	}
	if e.Pull != nil {
		texts = append(texts, struct{ field, text string }{"pull_request.base.ref", e.Pull.BaseRef})
	}
	if e.Review != nil {
		texts = append(texts, struct{ field, text string }{"review.state", e.Review.State})
	}
	if e.MergeGroup != nil {
		texts = append(texts, struct{ field, text string }{"merge_group.head_ref", e.MergeGroup.HeadRef},
			struct{ field, text string }{"merge_group.base_ref", e.MergeGroup.BaseRef})
	}
	if e.Push != nil {
		texts = append(texts, struct{ field, text string }{"ref", e.Push.Ref})
	}
	for _, t := range texts {
		if len(t.text) > maxText || hasNUL(t.text) {
			return &ghclient.FieldError{Field: t.field, Want: "at most " + strconv.Itoa(maxText) + " bytes without NUL"}
		}
	}
	return nil
}

func hasNUL(s string) bool {
	for i := range len(s) {
		if s[i] == 0 {
			return true
		}
	}
	return false
}
