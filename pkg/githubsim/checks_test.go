package githubsim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/githubsim"
)

type fields = map[string]any

const runs = "/repos/acme/widgets/check-runs"

// onHead is a world with one pull request, its head and a token.
func onHead(t *testing.T, switches githubsim.Switches) (w *world, head, token string) {
	t.Helper()
	w = newWorld(t)
	w.sim.Set(switches)
	n := w.pull(nil)
	return w, w.sim.Head(repoName, n), w.token()
}

func completed(conclusion string) fields {
	return fields{"status": "completed", "conclusion": conclusion, "output": fields{"title": "t", "summary": "s"}}
}

func (w *world) newRun(token, head string, more fields) int64 {
	w.t.Helper()
	body := fields{"name": "gate", "head_sha": head, "status": "in_progress"}
	for k, v := range more {
		body[k] = v
	}
	return w.call("POST", runs, token, body).want(201).id("id")
}

func runPath(id int64) string { return fmt.Sprintf("%s/%d", runs, id) }

func TestCreatingACheckRun(t *testing.T) {
	t.Parallel()
	w, head, token := onHead(t, githubsim.Switches{})
	t.Run("fills in what was not said and points to itself", func(t *testing.T) {
		r := w.call("POST", runs, token, fields{"name": "bare", "head_sha": head}).want(201)
		if r.str("status") != "queued" || r.at("conclusion") != nil || r.at("started_at") == nil || r.at("completed_at") != nil {
			t.Errorf("answer %s", r.raw)
		}
		if r.header.Get("Location") != r.str("url") {
			t.Errorf("Location %q, url %q", r.header.Get("Location"), r.str("url"))
		}
		if r.str("pull_requests", 0, "number") != "1" || r.str("app", "slug") != "countersign" {
			t.Errorf("answer %s", r.raw)
		}
	})
	t.Run("a conclusion completes it", func(t *testing.T) {
		r := w.call("POST", runs, token, fields{"name": "done", "head_sha": head, "conclusion": "neutral"}).want(201)
		if r.str("status") != "completed" || r.at("completed_at") == nil {
			t.Errorf("answer %s", r.raw)
		}
	})
	long := strings.Repeat("x", 65_536)
	action := fields{"label": "a", "description": "b", "identifier": "c"}
	for name, more := range map[string]fields{
		"completed without a conclusion":     {"status": "completed"},
		"the conclusion stale":               {"conclusion": "stale"},
		"an unknown status":                  {"status": "doing"},
		"four actions":                       {"actions": []fields{action, action, action, action}},
		"an action with a long label":        {"actions": []fields{{"label": strings.Repeat("x", 21), "description": "b", "identifier": "c"}}},
		"a summary of more than 65535":       {"output": fields{"title": "t", "summary": long}},
		"a text of more than 65535":          {"output": fields{"title": "t", "summary": "s", "text": long}},
		"an output without a title":          {"output": fields{"summary": "s"}},
		"more than fifty annotations":        {"output": fields{"title": "t", "summary": "s", "annotations": slices.Repeat([]fields{{"path": "a", "start_line": 1, "end_line": 1, "annotation_level": "notice", "message": "m"}}, 51)}},
		"a commit that is not there":         {"head_sha": strings.Repeat("0", 40)},
		"no name":                            {"name": ""},
		"a name of the wrong type":           {"name": 7},
		"a started_at that is no time of it": {"started_at": true},
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			body := fields{"name": "gate", "head_sha": head}
			for k, v := range more {
				body[k] = v
			}
			w.call("POST", runs, token, body).want(422)
		})
	}
	t.Run("a person cannot", func(t *testing.T) {
		w.call("POST", runs, w.sim.UserToken("alice"), fields{"name": "gate", "head_sha": head}).want(403)
	})
}

func TestUpdatingACheckRun(t *testing.T) {
	t.Parallel()
	w, head, token := onHead(t, githubsim.Switches{})
	t.Run("only the App that made it can", func(t *testing.T) {
		other := w.sim.AddApp(githubsim.App{Slug: "other"})
		inst := w.sim.AddInstallation(other.ID, "acme")
		second := &world{t: t, sim: w.sim, app: other, inst: inst}
		id := w.newRun(token, head, nil)
		r := second.call("PATCH", runPath(id), second.token(), completed("success")).want(403)
		want := fmt.Sprintf("Invalid app_id `%d` - check run can only be modified by the GitHub App that created it.", other.ID)
		if r.str("message") != want {
			t.Errorf("message %q", r.str("message"))
		}
	})
	t.Run("keeps what is not said", func(t *testing.T) {
		id := w.newRun(token, head, fields{"external_id": "7", "details_url": "https://countersign.example/7"})
		r := w.call("PATCH", runPath(id), token, completed("failure")).want(200)
		if r.str("external_id") != "7" || r.str("details_url") != "https://countersign.example/7" || r.str("conclusion") != "failure" || r.id("id") != id {
			t.Errorf("answer %s", r.raw)
		}
	})
	t.Run("an unknown one is 404", func(t *testing.T) { w.call("PATCH", runPath(1), token, completed("success")).want(404) })
}

func TestReopeningACompletedRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		position   githubsim.ReopenRun
		status     int
		conclusion any
	}{
		"takes effect and clears the conclusion": {githubsim.ReopenTakesEffect, 200, nil},
		"answers 200 and changes nothing":        {githubsim.ReopenIgnored, 200, "success"},
		"answers 422":                            {githubsim.ReopenRefused, 422, "success"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, head, token := onHead(t, githubsim.Switches{ReopenRun: c.position})
			id := w.newRun(token, head, completed("success"))
			w.call("PATCH", runPath(id), token, fields{"status": "in_progress"}).want(c.status)
			r := w.get(runPath(id), token).want(200)
			if diff := cmp.Diff(c.conclusion, r.at("conclusion")); diff != "" {
				t.Errorf("conclusion (-want +got):\n%s", diff)
			}
			if (r.at("completed_at") == nil) != (c.conclusion == nil) {
				t.Errorf("completed_at %v", r.at("completed_at"))
			}
		})
	}
}

func TestListingCheckRuns(t *testing.T) {
	t.Parallel()
	list := func(w *world, head, token, query string) (ids []int64) {
		r := w.get("/repos/acme/widgets/commits/"+head+"/check-runs"+query, token).want(200)
		for i := range int(r.id("total_count")) {
			ids = append(ids, r.id("check_runs", i, "id"))
		}
		return ids
	}
	t.Run("latest is the one made last, all are all, newest first", func(t *testing.T) {
		t.Parallel()
		w, head, token := onHead(t, githubsim.Switches{})
		a, b := w.newRun(token, head, completed("success")), w.newRun(token, head, nil)
		c := w.newRun(token, head, fields{"name": "other"})
		for query, want := range map[string][]int64{
			"": {c, b}, "?filter=latest": {c, b}, "?filter=all": {c, b, a}, "?check_name=gate": {b}, "?filter=all&status=completed": {a},
			fmt.Sprintf("?app_id=%d", w.app.ID): {c, b}, "?app_id=1": nil,
		} {
			if diff := cmp.Diff(want, list(w, head, token, query)); diff != "" {
				t.Errorf("%q (-want +got):\n%s", query, diff)
			}
		}
	})
	t.Run("latest by completed_at prefers a completed run over an unfinished newer one", func(t *testing.T) {
		t.Parallel()
		w, head, token := onHead(t, githubsim.Switches{LatestBy: githubsim.LatestByCompletedAt})
		a := w.newRun(token, head, completed("success"))
		w.newRun(token, head, nil)
		if diff := cmp.Diff([]int64{a}, list(w, head, token, "?check_name=gate")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if check, ok := w.sim.LatestCheck(repoName, head, "gate"); !ok || check.ID != a || check.Conclusion != "success" {
			t.Errorf("the merge box shows %+v", check)
		}
		later := completed("failure")
		later["completed_at"] = time.Now().Add(time.Hour).Format(time.RFC3339)
		b := w.newRun(token, head, later)
		if diff := cmp.Diff([]int64{b}, list(w, head, token, "?check_name=gate")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("a run shows on every pull request with its head, and a fork's names none", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n := w.pull(nil)
		head, token := w.sim.Head(repoName, n), w.token()
		_, err := w.sim.OpenPull(repoName, githubsim.Pull{Author: "dave", Branch: "again", Head: head})
		w.do(err)
		fork, err := w.sim.OpenPull(repoName, githubsim.Pull{Author: "mallory", Fork: "mallory", Files: map[string]string{"x": "y"}})
		w.do(err)
		if r := w.get(runPath(w.newRun(token, head, nil)), token); len(r.at("pull_requests").([]any)) != 2 { //nolint:forcetypeassert // a test
			t.Errorf("pull_requests: %s", r.raw)
		}
		r := w.get(runPath(w.newRun(token, w.sim.Head(repoName, fork), nil)), token)
		if len(r.at("pull_requests").([]any)) != 0 { //nolint:forcetypeassert // a test
			t.Errorf("pull_requests of a fork's head: %s", r.raw)
		}
		suite := w.get(fmt.Sprintf("/repos/acme/widgets/commits/%s/check-suites", w.sim.Head(repoName, fork)), token).want(200)
		if suite.at("check_suites", 0, "head_branch") != nil {
			t.Errorf("head_branch of a fork's suite: %v", suite.at("check_suites", 0, "head_branch"))
		}
	})
	t.Run("of more than a thousand of one name the oldest go", func(t *testing.T) {
		t.Parallel()
		w, head, token := onHead(t, githubsim.Switches{})
		w.sim.SetWebhook(w.app.ID, "", "")
		first := w.newRun(token, head, nil)
		for range 1000 {
			w.newRun(token, head, nil)
		}
		w.get(runPath(first), token).want(404)
		if got := w.get("/repos/acme/widgets/commits/"+head+"/check-runs?filter=all", token).str("total_count"); got != "1000" {
			t.Errorf("total_count %s", got)
		}
	})
}

func TestCheckRunWebhooks(t *testing.T) {
	t.Parallel()
	w, head, token := onHead(t, githubsim.Switches{})
	other := newReceiver(t)
	second := w.sim.AddApp(githubsim.App{Slug: "other", WebhookURL: other.url})
	w.sim.AddInstallation(second.ID, "acme")
	w.settle()
	w.hook.clear()
	other.clear()
	id := w.newRun(token, head, fields{"actions": []fields{{"label": "Re-evaluate", "description": "d", "identifier": "re-evaluate"}}})
	w.call("PATCH", runPath(id), token, completed("success")).want(200)
	w.do(w.sim.RerequestCheck(repoName, id, "alice"))
	w.do(w.sim.PressCheckAction(repoName, id, "re-evaluate", "alice"))
	w.settle()
	t.Run("created and completed go to every subscriber", func(t *testing.T) {
		if diff := cmp.Diff([]string{"check_run.created", "check_run.completed"}, other.names()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("rerequested and requested_action go to the App that made the run alone", func(t *testing.T) {
		want := []string{"check_run.created", "check_run.completed", "check_run.rerequested", "check_run.requested_action"}
		if diff := cmp.Diff(want, w.hook.names()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if got := w.hook.hooks()[3].at("requested_action", "identifier"); got != "re-evaluate" {
			t.Errorf("identifier %v", got)
		}
	})
}
