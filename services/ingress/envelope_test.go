package ingress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/nudge/nudgetest"
	"github.com/countersign/countersign/pkg/store"
)

// fake is an ingress over a store that only records.
func fake(tb testing.TB, change func(*Config)) (*bench, *fakeStore) {
	tb.Helper()
	st := &fakeStore{}
	return start(tb, st, offline(), change), st
}

// wantRefused checks the three things every refusal owes: its status, no work, and one line that says why.
func wantRefused(t *testing.T, b *bench, st *fakeStore, r reply, status int, res result, why string) {
	t.Helper()
	r.want(t, status)
	if st.stored() != 0 {
		t.Errorf("refused and stored %d deliveries", st.stored())
	}
	lines := b.log.lines(t)
	if len(lines) != 1 {
		t.Fatalf("%d log lines, want one: %s", len(lines), b.log)
	}
	if got, _ := lines[0]["reason"].(string); !strings.Contains(got, why) {
		t.Errorf("reason %q does not say %q", got, why)
	}
	if got := lines[0]["result"]; got != string(res) {
		t.Errorf("result %v, want %s", got, res)
	}
	if lines[0]["level"] != "WARN" {
		t.Errorf("level %v, want WARN", lines[0]["level"])
	}
}

func TestSignature(t *testing.T) {
	t.Parallel()
	whole := encode(t, pullRequest("opened", 7, headA, "open"))
	signature := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", value) }
	}
	for name, change := range map[string]func(*http.Request){
		"missing":             func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") },
		"empty":               signature(""),
		"without prefix":      signature(strings.TrimPrefix(sign(secret, whole), "sha256=")),
		"wrong prefix":        signature("sha1=" + strings.TrimPrefix(sign(secret, whole), "sha256=")),
		"prefix in capitals":  signature("SHA256=" + strings.TrimPrefix(sign(secret, whole), "sha256=")),
		"not hexadecimal":     signature("sha256=" + strings.Repeat("zz", 32)),
		"cut":                 signature(sign(secret, whole)[:70]),
		"longer":              signature(sign(secret, whole) + "00"),
		"of another body":     signature(sign(secret, whole[1:])),
		"of another secret":   signature(sign("another secret of thirty-two bytes", whole)),
		"of the empty secret": signature(sign("", whole)),
		"given twice":         func(r *http.Request) { r.Header.Add("X-Hub-Signature-256", sign(secret, whole)) },
	} {
		t.Run("RG-021 signature "+name+" is 401 and stores nothing", func(t *testing.T) {
			t.Parallel()
			b, st := fake(t, nil)
			wantRefused(t, b, st, b.post("d1", "pull_request", whole, change), http.StatusUnauthorized, resultSignature, "signature")
		})
	}
	t.Run("RG-020 the signature is over the exact bytes", func(t *testing.T) {
		t.Parallel()
		b, st := fake(t, nil)
		spaced := append(bytes.Clone(whole), ' ', '\n')
		b.post("d1", "pull_request", spaced, signature(sign(secret, whole))).want(t, http.StatusUnauthorized)
		b.post("d1", "pull_request", spaced, nil).want(t, http.StatusAccepted)
		if st.stored() != 1 {
			t.Errorf("stored %d deliveries, want 1", st.stored())
		}
	})
	for name, body := range map[string]string{"malformed JSON": "{", "no JSON": "\x00\xff", "nothing": "", "a list": "[]"} {
		t.Run("RG-020 RG-023 a wrong signature over "+name+" is 401, before any field is parsed", func(t *testing.T) {
			t.Parallel()
			b, st := fake(t, nil)
			wantRefused(t, b, st, b.post("d1", "pull_request", []byte(body), signature(sign(oldSecret+"x", []byte(body)))), http.StatusUnauthorized, resultSignature, "signature")
		})
	}
	t.Run("both secrets are valid while one is rotated, and only then", func(t *testing.T) {
		t.Parallel()
		b, _ := fake(t, nil)
		b.post("d1", "pull_request", whole, signature(sign(oldSecret, whole))).want(t, http.StatusAccepted)
		b.post("d2", "pull_request", whole, signature(sign(secret, whole))).want(t, http.StatusAccepted)
		after, _ := fake(t, func(c *Config) { c.PreviousSecret = "" })
		after.post("d1", "pull_request", whole, signature(sign(oldSecret, whole))).want(t, http.StatusUnauthorized)
	})
	t.Run("RG-031 without a secret every POST is 503", func(t *testing.T) {
		t.Parallel()
		for name, change := range map[string]func(*http.Request){
			"signed": nil, "signed with nothing": signature(sign("", whole)), "unsigned": func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") },
			"without a delivery id": func(r *http.Request) { r.Header.Del("X-GitHub-Delivery") },
		} {
			b, st := fake(t, func(c *Config) { c.WebhookSecret, c.PreviousSecret = "", "" })
			t.Log(name)
			wantRefused(t, b, st, b.post("d1", "pull_request", whole, change), http.StatusServiceUnavailable, resultUnconfigured, "no webhook secret is configured")
		}
	})
}

func TestEnvelopeHeaders(t *testing.T) {
	t.Parallel()
	whole := encode(t, pullRequest("opened", 7, headA, "open"))
	for _, header := range []struct{ id, name string }{{"RG-024", "X-GitHub-Delivery"}, {"RG-025", "X-GitHub-Event"}} {
		for name, values := range map[string][]string{
			"missing": nil, "empty": {""}, "of 129 characters": {strings.Repeat("a", 129)}, "given twice": {"push", "push"},
			"with a space": {"pull request"}, "with another alphabet": {"pull_requ\u00e9st"}, "with a byte that is no text": {"push\xff"},
		} {
			t.Run(header.id+" "+header.name+" "+name+" is 400", func(t *testing.T) {
				t.Parallel()
				b, st := fake(t, nil)
				r := b.post("d1", "pull_request", whole, func(r *http.Request) { r.Header[http.CanonicalHeaderKey(header.name)] = values })
				wantRefused(t, b, st, r, http.StatusBadRequest, resultEnvelope, header.name)
			})
		}
	}
	t.Run("RG-024 RG-025 128 characters are taken", func(t *testing.T) {
		t.Parallel()
		b, st := fake(t, nil)
		b.post(strings.Repeat("a", 128), "pull_request", whole, nil).wantBody(t, true, true)
		b.post("d2", strings.Repeat("a", 128), whole, nil).wantBody(t, true, false)
		if st.stored() != 1 {
			t.Errorf("stored %d deliveries, want the mapped one", st.stored())
		}
	})
}

func TestContentLength(t *testing.T) {
	t.Parallel()
	t.Run("RG-026 a declared length above 10 MiB is 413 before a byte is read", func(t *testing.T) {
		t.Parallel()
		b, st := fake(t, nil)
		// Nothing of the body is ever sent: an answer proves that none was waited for.
		status := raw(t, b, fmt.Sprintf("Content-Length: %d\r\n", MaxBody+1), "")
		wantRefused(t, b, st, reply{status: status}, http.StatusRequestEntityTooLarge, resultTooLarge, "10 MiB")
	})
	t.Run("RG-027 an undeclared length above 10 MiB is 413 while it streams", func(t *testing.T) {
		t.Parallel()
		b, st := fake(t, nil)
		source := &endless{}
		req := httptest.NewRequest(http.MethodPost, Route, source)
		req.ContentLength = -1
		req.Header.Set("X-GitHub-Delivery", "d1")
		req.Header.Set("X-GitHub-Event", "push")
		w := httptest.NewRecorder()
		b.server.ServeHTTP(w, req)
		wantRefused(t, b, st, reply{status: w.Code}, http.StatusRequestEntityTooLarge, resultTooLarge, "10 MiB")
		if source.given > MaxBody+64<<10 {
			t.Errorf("%d bytes were read of a body that is too large", source.given)
		}
	})
	t.Run("RG-027 the same over a connection, chunked", func(t *testing.T) {
		t.Parallel()
		b, st := fake(t, nil)
		req := request(t, b.http.URL+Route, "d1", "push", nil)
		req.Body, req.ContentLength, req.GetBody = io.NopCloser(&endless{}), -1, nil
		status := http.StatusRequestEntityTooLarge
		if resp, err := b.http.Client().Do(req); err == nil { // else the server closed the connection on a sender that went on
			defer resp.Body.Close()
			status = resp.StatusCode
		}
		nudgetest.Eventually(t, "the refusal is logged", func() bool { return b.log.String() != "" })
		wantRefused(t, b, st, reply{status: status}, http.StatusRequestEntityTooLarge, resultTooLarge, "10 MiB")
	})
	t.Run("exactly 10 MiB are read", func(t *testing.T) {
		t.Parallel()
		b, st := fake(t, nil)
		body := append(encode(t, pullRequest("opened", 7, headA, "open")), bytes.Repeat([]byte(" "), MaxBody)...)[:MaxBody]
		b.post("d1", "pull_request", body, nil).wantBody(t, true, true)
		b.post("d2", "pull_request", body, func(r *http.Request) { r.ContentLength = -1 }).wantBody(t, true, true)
		if st.stored() != 2 {
			t.Errorf("stored %d deliveries, want 2", st.stored())
		}
	})
	for _, value := range []string{"-1", "-10485761", "x", "1x", "0x10", "1.5", "1e3", "99999999999999999999"} {
		t.Run("RG-028 Content-Length "+value+" is 400", func(t *testing.T) {
			t.Parallel()
			b, st := fake(t, nil)
			if status := raw(t, b, "Content-Length: "+value+"\r\n", "{}"); status != http.StatusBadRequest {
				t.Errorf("status %d, want 400", status)
			}
			// The same header where it is not net/http's server that reads it.
			req := httptest.NewRequest(http.MethodPost, Route, strings.NewReader("{}"))
			req.Header.Set("X-GitHub-Delivery", "d1")
			req.Header.Set("X-GitHub-Event", "push")
			req.Header.Set("Content-Length", value)
			w := httptest.NewRecorder()
			b.server.ServeHTTP(w, req)
			wantRefused(t, b, st, reply{status: w.Code}, http.StatusBadRequest, resultEnvelope, "Content-Length")
		})
	}
	t.Run("a body that breaks off is 400", func(t *testing.T) {
		t.Parallel()
		b, st := fake(t, nil)
		req := httptest.NewRequest(http.MethodPost, Route, io.MultiReader(strings.NewReader("{"), broken{}))
		req.Header.Set("X-GitHub-Delivery", "d1")
		req.Header.Set("X-GitHub-Event", "push")
		w := httptest.NewRecorder()
		b.server.ServeHTTP(w, req)
		wantRefused(t, b, st, reply{status: w.Code}, http.StatusBadRequest, resultBody, "did not arrive whole")
	})
}

// endless is a body that never ends, and counts what was taken of it.
type endless struct{ given int }

func (e *endless) Read(p []byte) (int, error) {
	e.given += len(p)
	return len(p), nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// raw sends a request byte by byte, so that no client corrects it, and returns the status.
func raw(t *testing.T, b *bench, headers, body string) int {
	t.Helper()
	conn, err := net.Dial("tcp", b.http.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-GitHub-Delivery: d1\r\nX-GitHub-Event: push\r\n%s\r\n%s", Route, headers, body)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("read the answer: %v", err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func TestBody(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty": "", "no JSON": "payload", "cut JSON": `{"action":"opened"`, "two values": `{} {}`, "no UTF-8": "{\"a\":\"\xff\"}",
		"a list": `[{}]`, "a text": `"x"`, "a number": `1`, "null": `null`, "very deep": strings.Repeat("[", 20000),
	} {
		t.Run("RG-029 "+name+" is 400 for every event", func(t *testing.T) {
			t.Parallel()
			for _, event := range []string{"pull_request", "merge_group", "issue_comment", "something"} {
				b, st := fake(t, nil)
				wantRefused(t, b, st, b.post("d1", event, []byte(body), nil), http.StatusBadRequest, resultPayload, "one JSON object")
			}
		})
	}
	for name, value := range map[string]any{"a number": 1, "null": nil, "a list": []string{"opened"}, "an object": obj{}, "true": true} {
		t.Run("RG-030 action that is "+name+" is 400 for every event", func(t *testing.T) {
			t.Parallel()
			for _, event := range []string{"pull_request", "merge_group", "issue_comment", "something"} {
				b, st := fake(t, nil)
				p := pullRequest("opened", 7, headA, "open")
				p["action"] = value
				wantRefused(t, b, st, b.deliver(event, p), http.StatusBadRequest, resultPayload, "action: want a string")
			}
		})
	}
	t.Run("RG-030 an absent action is the empty one", func(t *testing.T) {
		t.Parallel()
		b, st := fake(t, nil)
		b.deliver("team_add", base("", target())).wantBody(t, true, true)
		b.deliver("pull_request", with(pullRequest("x", 7, headA, "open"), "action", nil)).wantBody(t, true, false)
		if st.stored() != 1 || st.authority[0].Reason != "team_add" {
			t.Errorf("stored %+v", st.authority)
		}
	})
	t.Run("a form says how to mend the webhook", func(t *testing.T) {
		t.Parallel()
		b, st := fake(t, nil)
		r := b.post("d1", "push", []byte("payload=%7B%7D"), func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") })
		wantRefused(t, b, st, r, http.StatusBadRequest, resultPayload, "set the webhook's content type to application/json")
	})
}

func TestRequiredFields(t *testing.T) {
	t.Parallel()
	direct := func(path string, value any) (string, obj) {
		return "pull_request", with(pullRequest("opened", 7, headA, "open"), path, value)
	}
	type row struct {
		name, event string
		payload     obj
		field       string
	}
	var rows []row
	add := func(name, field, event string, payload obj) { rows = append(rows, row{name, event, payload, field}) }
	for _, v := range []any{nil, "1", true, 0, -1, 1.5, obj{}} {
		event, p := direct("installation.id", v)
		add(fmt.Sprintf("RG-032 installation id %v", v), "installation.id", event, p)
		event, p = direct("pull_request.number", v)
		add(fmt.Sprintf("RG-032 pull number %v", v), "pull_request.number", event, p)
		event, p = direct("repository.id", v)
		add(fmt.Sprintf("RG-032 repository id %v", v), "repository.id", event, p)
		add(fmt.Sprintf("RG-032 check run pull number %v", v), "check_run.pull_requests[0].number", "check_run",
			with(checkRun("rerequested", appID), "check_run.pull_requests", []any{with(obj{"number": 1}, "number", v)}))
	}
	for _, v := range []any{nil, "widgets", "acme/widgets/x", "/widgets", "acme/", 7} {
		event, p := direct("repository.full_name", v)
		add(fmt.Sprintf("RG-032 full name %v", v), "repository.full_name", event, p)
	}
	for _, event := range []string{"label", "member", "team_add"} {
		add("RG-032 "+event+" without a repository", "repository", event, base("created", nil))
	}
	for _, event := range []string{"membership", "team", "organization"} {
		add("RG-032 "+event+" without an installation", "installation", event, with(base("added", nil), "installation", nil))
	}
	for _, v := range []any{nil, "", headA[:39], headA + "a", strings.ToUpper(headA), "g" + headA[1:], headA + headA[:23], 7} {
		event, p := direct("pull_request.head.sha", v)
		add(fmt.Sprintf("RG-033 head %v", v), "pull_request.head.sha", event, p)
		add(fmt.Sprintf("RG-033 check run head %v", v), "check_run.head_sha", "check_run", with(checkRun("rerequested", appID, 7), "check_run.head_sha", v))
	}
	for _, v := range []any{nil, "merged", "OPEN", "", 1} {
		event, p := direct("pull_request.state", v)
		add(fmt.Sprintf("RG-034 state %v", v), "pull_request.state", event, p)
		add(fmt.Sprintf("RG-034 review state %v", v), "pull_request.state", "pull_request_review", with(review("submitted", 7, headA, "open"), "pull_request.state", v))
	}
	for name, text := range map[string]string{"with NUL": "a\x00b", "very long": strings.Repeat("x", 3000)} {
		add("text that no row can hold, "+name+", in the base ref", "pull_request.base.ref", "pull_request", with(pullRequest("opened", 7, headA, "open"), "pull_request.base.ref", text))
		add("text that no row can hold, "+name+", in a pushed ref", "ref", "push", push(target(), "refs/heads/"+text))
		add("text that no row can hold, "+name+", in the action", "action", "label", base(text, target()))
		add("text that no row can hold, "+name+", in the owner", "installation.account.login", "label", with(base("created", target()), "installation.account", obj{"login": text}))
		add("text that no row can hold, "+name+", in a review's state", "review.state", "pull_request_review", with(review("submitted", 7, headA, "open"), "review.state", text))
		add("text that no row can hold, "+name+", in the full name", "repository.full_name", "label", base("created", repository(repoID, "acme/"+text)))
	}
	for _, row := range rows {
		t.Run(row.name+" is 400 and names the field", func(t *testing.T) {
			t.Parallel()
			b, st := fake(t, nil)
			r := b.deliver(row.event, row.payload)
			wantRefused(t, b, st, r, http.StatusBadRequest, resultPayload, "payload field "+row.field+": want ")
			if !strings.Contains(r.text, row.field) {
				t.Errorf("the answer %s does not name %s", r.text, row.field)
			}
		})
	}
}

func TestUnmapped(t *testing.T) {
	t.Parallel()
	t.Run("RG-036 an unmapped event is acknowledged, not retained, not deduplicated, and says why in one line", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		for range 2 { // the same delivery id: there is nothing to deduplicate by
			for event, payload := range map[string]obj{
				"something_new": {}, "issues": {"action": "opened"}, "pull_request": pullRequest("assigned", 7, headA, "open"), "ping": {"zen": "x"},
				"installation": {"action": "suspend"}, "check_run": {"action": "completed"}, "merge_group": {"action": "something_new"},
				"issue_comment": {"action": "created", "issue": obj{"pull_request": obj{}}}, "workflow_job": {"action": "queued"},
			} {
				r := b.redeliver("d1", event, payload).wantBody(t, true, false)
				if r.text != "{\"accepted\":true,\"queued\":false}\n" {
					t.Errorf("%s: body %q", event, r.text)
				}
			}
		}
		b.wantNoRows()
		lines := b.log.lines(t)
		if len(lines) != 18 {
			t.Errorf("%d log lines for 18 requests", len(lines))
		}
		for _, line := range lines {
			if line["msg"] != "webhook ignored" || line["reason"] == "" || line["level"] != "INFO" {
				t.Errorf("line %v", line)
			}
		}
		if n := b.counted("other", resultIgnored); n != 6 {
			t.Errorf("unknown events counted %v times, want 6", n)
		}
		if n := b.counted("merge_group", resultIgnored); n != 2 {
			t.Errorf("merge groups counted %v times, want 2", n)
		}
	})
	t.Run("RG-052 RG-055 RG-073 RG-080 RG-085 what asks for nothing is not refused for a field that only work needs", func(t *testing.T) {
		t.Parallel()
		b, st := fake(t, nil)
		homeless := func(p obj) obj { return with(p, "installation", nil) }
		for _, row := range []struct {
			event   string
			payload obj
		}{
			{"pull_request", homeless(pullRequest("labeled", 7, headA, "closed"))},
			{"pull_request_review", homeless(review("submitted", 7, headA, "closed"))},
			{"pull_request", homeless(with(pullRequest("opened", 7, headA, "open"), "repository", orgPolicy()))},
			{"push", homeless(push(orgPolicy(), "refs/heads/main"))},
			{"push", homeless(push(target(), "refs/tags/v1"))},
			{"repository", homeless(with(base("edited", target()), "changes", obj{"default_branch": obj{"from": "master"}}))},
			{"repository", homeless(base("deleted", target()))},
			{"installation_repositories", homeless(removed([]any{obj{"id": repoID, "full_name": "acme/widgets"}}))},
			{"check_run", homeless(checkRun("rerequested", appID+1))},
			{"merge_group", homeless(with(mergeGroup("checks_requested", headA), "repository", orgPolicy()))},
			{"issue_comment", with(homeless(base("created", nil)), "issue", obj{"pull_request": obj{}})},
		} {
			b.deliver(row.event, row.payload).wantBody(t, true, false)
		}
		if st.stored() != 0 {
			t.Errorf("stored %d deliveries", st.stored())
		}
	})
	t.Run("RG-032 where that rests on the repository's name, the name must be readable", func(t *testing.T) {
		t.Parallel()
		b, _ := fake(t, nil)
		for event, payload := range map[string]obj{
			"repository":   with(base("edited", target()), "changes", obj{"default_branch": obj{"from": "master"}}),
			"push":         push(orgPolicy(), "refs/heads/main"),
			"pull_request": pullRequest("labeled", 7, headA, "closed"),
		} {
			b.deliver(event, with(payload, "repository.full_name", "acme")).want(t, http.StatusBadRequest)
		}
	})
	t.Run("RG-038 another App's run is never refused for its fields", func(t *testing.T) {
		t.Parallel()
		b, st := fake(t, nil)
		b.deliver("check_run", with(checkRun("rerequested", appID+1, 7), "check_run.head_sha", "x")).wantBody(t, true, false)
		if st.stored() != 0 {
			t.Error("stored")
		}
	})
}

func TestRoute(t *testing.T) {
	t.Parallel()
	whole := encode(t, pullRequest("opened", 7, headA, "open"))
	for _, path := range []string{
		"/", "/metrics", "/health/live", "/health/ready", "/debug/pprof/", "/api/runtime-identity", "/setup", "/webhooks", "/webhooks/github/",
		"//webhooks/github", "/webhooks/../webhooks/github", "/WEBHOOKS/GITHUB", "/webhooks/github/x",
	} {
		t.Run("RG-479 "+path+" is not served on the public listener", func(t *testing.T) {
			t.Parallel()
			b, st := fake(t, nil)
			r := b.post("d1", "pull_request", whole, func(r *http.Request) { r.URL.Path = path })
			wantRefused(t, b, st, r, http.StatusNotFound, resultNoRoute, "only POST")
		})
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch, "GARBAGE"} {
		t.Run("RG-479 "+method+" is not served", func(t *testing.T) {
			t.Parallel()
			b, st := fake(t, nil)
			r := b.post("d1", "pull_request", whole, func(r *http.Request) { r.Method = method })
			wantRefused(t, b, st, r, http.StatusMethodNotAllowed, resultNoRoute, "only POST")
			if r.header.Get("Allow") != http.MethodPost {
				t.Errorf("Allow %q", r.header.Get("Allow"))
			}
		})
	}
	t.Run("an answer is never kept by a cache", func(t *testing.T) {
		t.Parallel()
		b, _ := fake(t, nil)
		for _, r := range []reply{b.post("d1", "pull_request", whole, nil), b.post("", "pull_request", whole, nil)} {
			if r.header.Get("Cache-Control") != "no-store" || r.header.Get("Content-Type") != "application/json" {
				t.Errorf("status %d: headers %v", r.status, r.header)
			}
		}
	})
}

func TestStoreErrors(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		err  error
		res  result
	}{
		{"RG-115 a database failure", errors.New("dial tcp 10.1.2.3:5432: connection refused"), resultStore},
		{"RG-161 the guard not obtained", fmt.Errorf("accept: %w", store.ErrGuardTimeout), resultGuard},
		{"RG-105 a delivery id used for something else", fmt.Errorf("accept: %w", store.ErrDeliveryConflict), resultConflict},
	} {
		t.Run(row.name+" is 503", func(t *testing.T) {
			t.Parallel()
			b, st := fake(t, nil)
			st.err = row.err
			for event, payload := range map[string]obj{"pull_request": pullRequest("opened", 7, headA, "open"), "team": base("edited", nil)} {
				r := b.deliver(event, payload).want(t, http.StatusServiceUnavailable)
				if strings.Contains(r.text, "10.1.2.3") {
					t.Errorf("the answer repeats the database's error: %s", r.text)
				}
				if n := b.counted(event, row.res); n != 1 {
					t.Errorf("%s counted %v times as %s, want once", event, n, row.res)
				}
			}
			for _, line := range b.log.lines(t) {
				if line["reason"] != row.err.Error() {
					t.Errorf("reason %v, want the cause", line["reason"])
				}
			}
		})
	}
	t.Run("a sender who leaves after the body arrived does not take the delivery with him", func(t *testing.T) {
		t.Parallel()
		ctx, leave := context.WithCancel(t.Context())
		st := leaving{&fakeStore{}, leave}
		s, err := New(Deps{Store: st, Bus: offline(), Config: testConfig()})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, request(t, Route, "d1", "pull_request", encode(t, pullRequest("opened", 7, headA, "open"))).WithContext(ctx))
		if ctx.Err() == nil || w.Code != http.StatusAccepted || st.stored() != 1 {
			t.Errorf("left: %v, status %d, stored %d", ctx.Err(), w.Code, st.stored())
		}
	})
	t.Run("a panic is 500, one line, and not the end", func(t *testing.T) {
		t.Parallel()
		b := start(t, panicking{&fakeStore{}}, offline(), nil)
		b.deliver("pull_request", pullRequest("opened", 7, headA, "open")).want(t, http.StatusInternalServerError)
		b.deliver("team", base("edited", nil)).want(t, http.StatusAccepted)
		if n := b.counted("pull_request", resultPanic); n != 1 {
			t.Errorf("counted %v times", n)
		}
	})
}
