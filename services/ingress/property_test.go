package ingress

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
)

// serve runs one request through a server without a network.
func serveOnce(tb interface {
	Helper()
	Fatal(...any)
}, s *Server, id, event, signature string, body []byte) *httptest.ResponseRecorder {
	tb.Helper()
	req := httptest.NewRequest(http.MethodPost, Route, bytes.NewReader(body))
	req.Header["X-Github-Delivery"] = []string{id}
	req.Header["X-Github-Event"] = []string{event}
	if signature != "" {
		req.Header["X-Hub-Signature-256"] = []string{signature}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	return w
}

func propertyServer(tb testing.TB) (*Server, *fakeStore) {
	tb.Helper()
	st := &fakeStore{}
	s, err := New(Deps{Store: st, Bus: (*nudge.Bus)(nil), Config: testConfig()})
	if err != nil {
		tb.Fatal(err)
	}
	return s, st
}

func TestProperties(t *testing.T) {
	t.Parallel()
	mapped := encode(t, pullRequest("opened", 7, headA, "open"))
	t.Run("RG-490 random wrong signatures never enqueue", func(t *testing.T) {
		t.Parallel()
		s, st := propertyServer(t)
		right := sign(secret, mapped)
		previous := sign(oldSecret, mapped)
		near := rapid.Custom(func(t *rapid.T) string {
			b := []byte(right)
			i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			b[i] ^= byte(rapid.IntRange(1, 127).Draw(t, "flip"))
			return string(b)
		})
		signatures := rapid.OneOf(
			near,
			rapid.String(),
			rapid.StringMatching(`sha256=[0-9a-f]{64}`),
			rapid.StringMatching(`(sha1|sha512|SHA256|sha256)?=?[0-9a-fA-F]{0,130}`),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(key []byte) string { return sign(string(key), mapped) }),
		)
		rapid.Check(t, func(t *rapid.T) {
			signature := signatures.Draw(t, "signature")
			// Hexadecimal has two spellings, and both name the right digest.
			if text, ok := strings.CutPrefix(signature, "sha256="); ok && (strings.EqualFold("sha256="+text, right) || strings.EqualFold("sha256="+text, previous)) {
				t.Skip("the right signature")
			}
			if w := serveOnce(t, s, "d1", "pull_request", signature, mapped); w.Code != http.StatusUnauthorized {
				t.Fatalf("signature %q is %d, want 401", signature, w.Code)
			}
			if st.stored() != 0 {
				t.Fatalf("signature %q enqueued", signature)
			}
		})
	})
	t.Run("RG-491 unknown events never enqueue", func(t *testing.T) {
		t.Parallel()
		s, st := propertyServer(t)
		known := slices.DeleteFunc(slices.Clone(events), func(e string) bool { return e == "ping" || e == "check_suite" })
		names := rapid.OneOf(
			rapid.String(),
			rapid.StringMatching(`[a-z_]{1,40}`),
			rapid.Map(rapid.SampledFrom(known), strings.ToUpper),
			rapid.Map(rapid.SampledFrom(known), func(e string) string { return e + "s" }),
			rapid.Map(rapid.SampledFrom(known), func(e string) string { return " " + e }),
			rapid.SampledFrom([]string{"ping", "check_suite", "status", "issues", "issue_comment"}),
		)
		unmapped := []string{"issue_comment"}
		rapid.Check(t, func(t *rapid.T) {
			name := names.Draw(t, "event")
			if slices.Contains(known, name) && !slices.Contains(unmapped, name) {
				t.Skip("a known event")
			}
			w := serveOnce(t, s, "d1", name, sign(secret, mapped), mapped)
			if w.Code != http.StatusAccepted && w.Code != http.StatusBadRequest {
				t.Fatalf("event %q is %d, want 202, or 400 where it is no name", name, w.Code)
			}
			if st.stored() != 0 {
				t.Fatalf("event %q enqueued", name)
			}
		})
	})
	t.Run("RG-032 RG-033 whatever is accepted has row keys in their one form", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			st := &fakeStore{}
			s, err := New(Deps{Store: st, Bus: (*nudge.Bus)(nil), Config: testConfig()})
			if err != nil {
				t.Fatal(err)
			}
			event := rapid.SampledFrom(events).Draw(t, "event")
			payload := rapid.SampledFrom([]obj{
				pullRequest("synchronize", 7, headA, "open"), review("submitted", 7, headA, "open"), checkRun("rerequested", appID, 7),
				push(target(), "refs/heads/main"), base("created", target()), removed([]any{obj{"id": 1, "full_name": "a/b"}}),
			}).Draw(t, "payload")
			body, err := json.Marshal(mutate(t, payload))
			if err != nil {
				t.Fatal(err)
			}
			w := serveOnce(t, s, "d1", event, sign(secret, body), body)
			if w.Code != http.StatusAccepted && w.Code != http.StatusBadRequest {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
			checkStored(t, st)
		})
	})
}

// mutate replaces, removes or keeps each value of a payload.
func mutate(t *rapid.T, value any) any {
	switch v := value.(type) {
	case obj:
		out := obj{}
		for _, key := range slices.Sorted(keysOf(v)) {
			switch rapid.IntRange(0, 19).Draw(t, key) {
			case 0:
			case 1:
				out[key] = rapid.SampledFrom([]any{nil, true, 0, -1, 1.5, 1e30, "", "x/y", "a\x00b", headA, []any{}, obj{}}).Draw(t, "value of "+key)
			default:
				out[key] = mutate(t, v[key])
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = mutate(t, v[i])
		}
		return out
	}
	return value
}

func keysOf(v obj) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range v {
			if !yield(key) {
				return
			}
		}
	}
}

// checkStored holds what reached the store to what every row needs.
func checkStored(t interface{ Fatalf(string, ...any) }, st *fakeStore) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, w := range st.direct {
		if w.Installation <= 0 || w.Repository <= 0 || w.Number <= 0 || !w.Head.Valid() || (w.Before != "" && !w.Before.Valid()) ||
			(w.State != "open" && w.State != "closed") || (w.Merged && w.State != "closed") || strings.Count(w.FullName, "/") != 1 ||
			w.FullName != strings.ToLower(w.FullName) || w.Reason == "" || strings.Contains(w.BaseRef, "\x00") {
			t.Fatalf("stored %+v", w)
		}
	}
	for _, w := range st.authority {
		wide := w.Scope == "installation"
		if w.Installation <= 0 || wide != (w.Repository == 0) || (w.Scope == "base") != (w.BaseRef != "") || w.Reason == "" || strings.Contains(w.BaseRef, "\x00") {
			t.Fatalf("stored %+v", w)
		}
	}
}

// FuzzServeHTTP: no body and no header makes the server panic, answer a status that section B does not name, or store
// something without a proved signature or in another form than the rows need.
func FuzzServeHTTP(f *testing.F) {
	for event, payload := range map[string]any{
		"pull_request": pullRequest("synchronize", 7, headA, "open"), "pull_request_review": review("submitted", 7, headSHA256, "open"),
		"check_run": checkRun("rerequested", appID, 7), "push": push(orgPolicy(), "refs/heads/main"), "label": base("created", target()),
		"installation_repositories": removed([]any{nil}), "merge_group": base("destroyed", target()), "unknown": obj{"action": 1}, "": obj{},
	} {
		body, err := json.Marshal(payload)
		if err != nil {
			f.Fatal(err)
		}
		f.Add("d1", event, body, true)
		f.Add("d1", event, body[:len(body)/2], true)
		f.Add("", event, body, false)
	}
	allowed := []int{http.StatusAccepted, http.StatusBadRequest, http.StatusUnauthorized, http.StatusRequestEntityTooLarge}
	f.Fuzz(func(t *testing.T, id, event string, body []byte, signed bool) {
		s, st := propertyServer(t)
		signature := "sha256=" + strings.Repeat("0", 64)
		if signed {
			signature = sign(secret, body)
		}
		w := serveOnce(t, s, id, event, signature, body)
		if !slices.Contains(allowed, w.Code) {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		if !signed && (w.Code == http.StatusAccepted || st.stored() != 0) {
			t.Fatalf("accepted without a signature: %d", w.Code)
		}
		var answer map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(w.Body.String()) > 1000 {
			t.Fatalf("answer %q: %v", w.Body, err)
		}
		if queued, _ := answer["queued"].(bool); queued != (st.stored() == 1) {
			t.Fatalf("answer %s with %d deliveries stored", w.Body, st.stored())
		}
		checkStored(t, st)
	})
}

// The same event is classified the same way, however often: nothing of it depends on the order of a map.
func TestClassifyIsDeterministic(t *testing.T) {
	t.Parallel()
	e := ghclient.Event{Name: "push", Mapped: true, Installation: 1, Repository: ghclient.RepoRef{ID: 2, FullName: "a/b"}, Push: &ghclient.PushRef{Branch: "main"}}
	first := Classify(e)
	for range 100 {
		compare(t, Classify(e), first)
	}
}
