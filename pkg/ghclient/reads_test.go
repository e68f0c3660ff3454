package ghclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/githubsim"
)

func runJSON(id, app int, name, sha, status, conclusion string) string {
	quoted := "null"
	if conclusion != "" {
		quoted = `"` + conclusion + `"`
	}
	return fmt.Sprintf(`{"id":%d,"name":%q,"head_sha":%q,"status":%q,"conclusion":%s,"external_id":"x","app":{"id":%d},"started_at":"2026-01-02T03:04:05Z","completed_at":null}`, id, name, sha, status, quoted, app)
}

func runList(runs ...string) string {
	return fmt.Sprintf(`{"total_count":%d,"check_runs":[%s]}`, len(runs), strings.Join(runs, ","))
}

func TestFindRun(t *testing.T) {
	t.Parallel()
	const name = "Countersign / approval"
	ours := runJSON(5, testAppID, name, shaA, "completed", "success")
	for _, tt := range []struct {
		name  string
		body  string
		found int64
		want  error
	}{
		{"RG-295 ours among foreign and other-named ones", runList(runJSON(9, 8, name, shaA, "in_progress", ""), runJSON(8, testAppID, "other", shaA, "in_progress", ""), ours), 5, nil},
		{"RG-295 only foreign ones", runList(runJSON(9, 8, name, shaA, "in_progress", "")), 0, nil},
		{"RG-295 none", runList(), 0, nil},
		{"the newest of several", runList(runJSON(3, testAppID, name, shaA, "in_progress", ""), ours, runJSON(4, testAppID, name, shaA, "queued", "")), 5, nil},
		{"RG-295 ours on another head is a lie", runList(runJSON(5, testAppID, name, shaB, "completed", "success")), 0, ErrMalformed},
		{"fewer than counted", strings.Replace(runList(ours), `"total_count":1`, `"total_count":2`, 1), 0, ErrMalformed},
		{"a status nobody knows", runList(runJSON(5, testAppID, name, shaA, "done", "")), 0, ErrMalformed},
		{"completed without a conclusion", runList(runJSON(5, testAppID, name, shaA, "completed", "")), 0, ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			query := ""
			s.mux.HandleFunc("GET /repos/acme/shop/commits/{sha}/check-runs", func(w http.ResponseWriter, r *http.Request) {
				query = r.URL.Query().Get("check_name") + "|" + r.URL.Query().Get("filter") + "|" + r.URL.Query().Get("app_id")
				write(w, 200, tt.body)
			})
			run, found, err := s.client().FindRun(t.Context(), acme, shaA, name)
			if !errors.Is(err, tt.want) || found != (tt.found != 0) || run.ID != tt.found {
				t.Errorf("got %+v, %v, %v", run, found, err)
			}
			if query != name+"|latest|7" {
				t.Errorf("asked for %s", query)
			}
		})
	}
}

func TestWriteRun(t *testing.T) {
	t.Parallel()
	spec := RunSpec{Name: "x", HeadSHA: shaA, Status: "in_progress", Title: "t", Summary: "s"}
	good := runJSON(5, testAppID, "x", shaA, "in_progress", "")
	update := func(ctx context.Context, c *Client) error { _, err := c.UpdateRun(ctx, acme, 5, spec); return err }
	create := func(ctx context.Context, c *Client) error { _, err := c.CreateRun(ctx, acme, spec); return err }
	for _, tt := range []struct {
		name   string
		call   func(context.Context, *Client) error
		status int
		body   string
		want   []error
	}{
		{"RG-296 the same id", update, 200, good, nil},
		{"RG-296 another id", update, 200, runJSON(6, testAppID, "x", shaA, "in_progress", ""), []error{ErrMalformed, ErrUnknownOutcome}},
		{"RG-296 no id", update, 200, `{}`, []error{ErrMalformed, ErrUnknownOutcome}},
		{"another App", update, 200, runJSON(5, 8, "x", shaA, "in_progress", ""), []error{ErrMalformed, ErrUnknownOutcome}},
		{"cut short", update, 200, good[:30], []error{ErrMalformed, ErrUnknownOutcome}},
		{"a page instead of JSON", update, 200, `<html>`, []error{ErrMalformed, ErrUnknownOutcome}},
		{"empty", update, 200, ``, []error{ErrMalformed, ErrUnknownOutcome}},
		{"another App's run", update, 403, `{"message":"Invalid app_id"}`, []error{ErrForbidden}},
		{"a run that is gone", update, 404, `{"message":"Not Found"}`, []error{ErrNotFound}},
		{"a transition GitHub refuses", update, 422, `{"message":"Invalid request.\n\nNo subschema matched."}`, []error{ErrInvalid}},
		{"an outage, maybe after it was applied", update, 502, `<html>`, []error{ErrUnknownOutcome}},
		{"created", create, 201, good, nil},
		{"created on another head", create, 201, runJSON(5, testAppID, "x", shaB, "in_progress", ""), []error{ErrMalformed, ErrUnknownOutcome}},
		{"created under another name", create, 201, runJSON(5, testAppID, "y", shaA, "in_progress", ""), []error{ErrMalformed, ErrUnknownOutcome}},
		{"an outage at creation", create, 500, `{}`, []error{ErrUnknownOutcome}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.answers("PATCH /repos/acme/shop/check-runs/5", tt.status, tt.body)
			s.answers("POST /repos/acme/shop/check-runs", tt.status, tt.body)
			err := tt.call(t.Context(), s.client())
			if len(tt.want) == 0 && err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !errors.Is(err, want) {
					t.Errorf("%v is not %v", err, want)
				}
			}
			if n := s.seen("PATCH") + s.seen("POST /repos"); n != 1 {
				t.Errorf("sent %d times: a write is never repeated here", n)
			}
		})
	}
	t.Run("the connection drops after the request", func(t *testing.T) {
		t.Parallel()
		s := newScript(t)
		s.mux.HandleFunc("PATCH /repos/acme/shop/check-runs/5", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		if err := update(t.Context(), s.client()); !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a connection that was never made", func(t *testing.T) {
		t.Parallel()
		s := newScript(t)
		client := s.client()
		if _, err := client.app.tokens.get(t.Context(), testInst, EvaluatorPermissions); err != nil {
			t.Fatal(err)
		}
		client.app.http.(*http.Transport).CloseIdleConnections()
		s.srv.Close()
		if err := update(t.Context(), client); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("got %v", err)
		}
	})
	for _, tt := range []struct {
		name string
		spec RunSpec
	}{
		{"a long title", RunSpec{Name: "x", Status: "in_progress", Title: strings.Repeat("é", 256)}},
		{"a long summary", RunSpec{Name: "x", Status: "in_progress", Title: "t", Summary: strings.Repeat("a", 65536)}},
		{"a long text", RunSpec{Name: "x", Status: "in_progress", Title: "t", Text: strings.Repeat("a", 65536)}},
		{"a long external id", RunSpec{Name: "x", Status: "in_progress", ExternalID: strings.Repeat("a", 256)}},
		{"completed without a conclusion", RunSpec{Name: "x", Status: "completed"}},
		{"a conclusion without completed", RunSpec{Name: "x", Status: "in_progress", Conclusion: "success"}},
		{"stale", RunSpec{Name: "x", Status: "completed", Conclusion: "stale"}},
		{"text without a title", RunSpec{Name: "x", Status: "in_progress", Summary: "s"}},
		{"no name", RunSpec{Status: "in_progress"}},
	} {
		t.Run("refused before it is sent: "+tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			if _, err := s.client().UpdateRun(t.Context(), acme, 5, tt.spec); !errors.Is(err, ErrInvalid) || len(s.calls) != 0 {
				t.Errorf("got %v, sent %v", err, s.calls)
			}
		})
	}
}

func restPull(number int, sha, state string, fields ...string) string {
	base := fmt.Sprintf(`"base":{"ref":"main","sha":%q,"repo":{"id":101,"full_name":"acme/shop"}}`, shaB)
	p := fmt.Sprintf(`{"number":%d,"node_id":"n","state":%q,"merged":false,"merged_at":null,"draft":false,"title":"t","html_url":"u","updated_at":"2026-01-02T03:04:05Z","changed_files":1,"labels":[],`+
		`"user":{"id":5,"login":"alice","type":"User"},"head":{"sha":%q,"repo":{"id":101}},%s}`, number, state, sha, base)
	for i := 0; i+1 < len(fields); i += 2 {
		p = strings.Replace(p, fields[i], fields[i+1], 1)
	}
	return p
}

func TestPull(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		body string
		want error
	}{
		{"as asked", restPull(3, shaA, "open"), nil},
		{"RG-195 another number", restPull(4, shaA, "open"), ErrMalformed},
		{"RG-195 another base repository", restPull(3, shaA, "open", `"repo":{"id":101,"full_name"`, `"repo":{"id":102,"full_name"`), ErrMoved},
		{"RG-195 the base repository has another name", restPull(3, shaA, "open", `acme/shop`, `acme/store`), ErrMoved},
		{"RG-426 the head is not a commit id", restPull(3, "main", "open"), ErrMalformed},
		{"the state is neither", restPull(3, shaA, "merged"), ErrMalformed},
		{"the count is missing", restPull(3, shaA, "open", `"changed_files":1,`, ``), ErrMalformed},
		{"the count is text", restPull(3, shaA, "open", `"changed_files":1`, `"changed_files":"1"`), ErrMalformed},
		{"a label without a name", restPull(3, shaA, "open", `"labels":[]`, `"labels":[{}]`), ErrMalformed},
		{"a time without an offset", restPull(3, shaA, "open", `05Z`, `05`), ErrMalformed},
		{"a deleted fork and a deleted author", restPull(3, shaA, "open", `"repo":{"id":101}},"base"`, `"repo":null},"base"`, `{"id":5,"login":"alice","type":"User"}`, `null`), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.answers("GET /repos/acme/shop/pulls/3", 200, tt.body)
			got, err := s.client().Pull(t.Context(), acme, 3)
			if !errors.Is(err, tt.want) || (err == nil) != (got.Number == 3) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestPullsOfCommit(t *testing.T) {
	t.Parallel()
	many := func(n int) []string {
		var all []string
		for i := 1; i <= n; i++ {
			all = append(all, restPull(i, shaA, "open"))
		}
		return all
	}
	for _, tt := range []struct {
		name  string
		items []string
		want  int
		err   error
	}{
		{"RG-192 a hundred", many(100), 100, nil},
		{"RG-192 the 101st fails closed", many(101), 0, ErrTooLarge},
		{"RG-194 a number twice, alike", []string{restPull(3, shaA, "open"), restPull(3, shaA, "open")}, 1, nil},
		{"RG-194 a number twice with another state", []string{restPull(3, shaA, "open"), restPull(3, shaA, "closed")}, 0, ErrMalformed},
		{"RG-194 a number twice with another head", []string{restPull(3, shaA, "open"), restPull(3, shaB, "open")}, 0, ErrMalformed},
		{"a malformed entry", []string{restPull(3, shaA, "open"), `{"number":"4"}`}, 0, ErrMalformed},
		{"none is an answer", nil, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.mux.HandleFunc("GET /repos/acme/shop/commits/{sha}/pulls", func(w http.ResponseWriter, r *http.Request) {
				page := max(1, atoi(r.URL.Query().Get("page")))
				from, to := min(len(tt.items), (page-1)*100), min(len(tt.items), page*100)
				header := "X-Nothing: x"
				if to < len(tt.items) {
					header = fmt.Sprintf(`Link: <%s/repositories/101/commits/%s/pulls?per_page=100&page=%d>; rel="next"`, s.srv.URL, shaA, page+1)
				}
				write(w, 200, "["+strings.Join(tt.items[from:to], ",")+"]", header)
			})
			got, err := s.client().PullsOfCommit(t.Context(), acme, shaA)
			if !errors.Is(err, tt.err) || len(got) != tt.want {
				t.Errorf("got %d, %v", len(got), err)
			}
		})
	}
}

func TestUserPermission(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body, want string
		err              error
	}{
		{"folded", `{"permission":"write","role_name":"maintain","user":{"login":"alice"}}`, "write", nil},
		{"flags refine it", `{"permission":"write","user":{"login":"Alice","permissions":{"admin":false,"maintain":true,"push":true,"triage":true,"pull":true}}}`, "maintain", nil},
		{"flags refine read", `{"permission":"read","user":{"login":"alice","permissions":{"admin":false,"maintain":false,"push":false,"triage":true,"pull":true}}}`, "triage", nil},
		{"unfolded, as was recorded once", `{"permission":"maintain","user":{"login":"alice","permissions":{"admin":false,"maintain":true,"push":true}}}`, "maintain", nil},
		{"flags that contradict grant the lesser", `{"permission":"read","user":{"login":"alice","permissions":{"admin":true}}}`, "read", nil},
		{"and the other way round", `{"permission":"admin","user":{"login":"alice","permissions":{"pull":true}}}`, "read", nil},
		{"none", `{"permission":"none","role_name":"","user":{"login":"alice"}}`, "none", nil},
		{"a word nobody knows", `{"permission":"owner","user":{"login":"alice"}}`, "", ErrMalformed},
		{"somebody else", `{"permission":"admin","user":{"login":"mallory"}}`, "", ErrMalformed},
		{"a flag that is text", `{"permission":"write","user":{"login":"alice","permissions":{"admin":"true"}}}`, "", ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.answers("GET /repos/acme/shop/collaborators/alice/permission", 200, tt.body)
			if got, err := s.client().UserPermission(t.Context(), acme, "alice"); !errors.Is(err, tt.err) || got != tt.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestRoutesStayRoutes(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	client := s.client()
	for _, bad := range []Repo{{Owner: "..", Name: "shop"}, {Owner: "acme", Name: "."}, {Owner: "", Name: "shop"}, {Owner: "acme", Name: "a\nb"}} {
		if _, err := client.Repository(t.Context(), bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := client.File(t.Context(), acme, shaA, "docs/../../x"); !errors.Is(err, ErrInvalid) {
		t.Errorf("a path with dots: %v", err)
	}
	if len(s.calls) != 0 {
		t.Errorf("sent %v", s.calls)
	}
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		w.pull(githubsim.Pull{})
	}
	w.sim.SetWebhook(w.ex.App.ID, w.sim.URL()+"/nowhere", "s")
	for i := range 60 {
		w.pull(githubsim.Pull{Files: map[string]string{fmt.Sprint(i): "x"}})
	}
	w.do(w.sim.Settle(t.Context()))
	var all []Delivery
	for cursor := ""; ; {
		page, next, err := w.app.Deliveries(t.Context(), cursor)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page...)
		if next == "" {
			break
		}
		cursor = next
	}
	want := len(w.sim.Deliveries(w.ex.App.ID))
	if len(all) != want || want < 101 {
		t.Fatalf("%d deliveries of %d", len(all), want)
	}
	last := all[0]
	if last.Event != "pull_request" || last.Action != "opened" || last.GUID == "" || last.Succeeded() || last.InstallationID != w.ex.Installation {
		t.Errorf("newest %+v", last)
	}
	w.do(w.app.Redeliver(t.Context(), last.ID))
	w.do(w.sim.Settle(t.Context()))
	page, _, err := w.app.Deliveries(t.Context(), "")
	if err != nil || page[0].GUID != last.GUID || !page[0].Redelivery || page[0].ID == last.ID {
		t.Errorf("after the redelivery %+v, %v", page[0], err)
	}
	if err := w.app.Redeliver(t.Context(), 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such delivery: %v", err)
	}
}

func TestTreeWalk(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 15} { // whole trees, and trees that GitHub cuts
		w := newWorld(t)
		w.sim.Set(githubsim.Switches{TreeLimit: limit, FrozenBaseSHA: true})
		_, err := w.sim.PushBase(w.ex.Repository, "main", "alice", map[string]string{"deep/a/b/one": "1", "deep/a/b/two": "2", "deep/c/three": "3", "keep/x": "x", "keep/y": "y", "script": "#!/bin/sh"})
		w.do(err)
		n := w.pull(githubsim.Pull{Files: map[string]string{
			"deep/a/b/one": "changed", "deep/a/b/two": githubsim.Deleted, "deep/a/b/zwei": "2", "new/dir/file": "n", "deep/c/three": githubsim.Deleted,
			"script": githubsim.Executable("#!/bin/sh"), "module": githubsim.Submodule(shaA),
		}})
		// The base goes on: what changes there is not the pull request's.
		_, err = w.sim.PushBase(w.ex.Repository, "main", "alice", map[string]string{"keep/x": "newer"})
		w.do(err)
		pull, err := w.client.PullState(t.Context(), w.repo, n)
		w.do(err)
		w.sim.ResetRequests()
		files, err := w.client.changedByTrees(t.Context(), w.repo, pull)
		trees := 0
		for _, r := range w.sim.Requests() {
			if strings.Contains(r.Route, "/git/trees/") {
				trees++
			}
		}
		if trees < 2 || (trees > 2) != (limit > 0) {
			t.Errorf("limit %d: %d trees were read", limit, trees)
		}
		if err != nil {
			t.Fatalf("limit %d: %v", limit, err)
		}
		var got []string
		for _, f := range files {
			got = append(got, f.Status+" "+f.Path)
		}
		want := []string{"modified deep/a/b/one", "removed deep/a/b/two", "added deep/a/b/zwei", "removed deep/c/three", "added module", "added new/dir/file", "modified script"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
		pull.ChangedFiles = 9
		if _, err := w.client.changedByTrees(t.Context(), w.repo, pull); !errors.Is(err, ErrMalformed) {
			t.Errorf("a count that can't be: %v", err)
		}
	}
}
