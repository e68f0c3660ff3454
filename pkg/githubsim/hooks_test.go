package githubsim_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/githubsim"
)

func TestAWebhook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.pull(nil)
	w.review(n, "alice", "APPROVED")
	w.settle()
	hooks := w.hook.hooks()
	h := hooks[len(hooks)-1]
	t.Run("carries every header of GitHub", func(t *testing.T) {
		for name, want := range map[string]string{
			"X-Github-Event": `^pull_request_review$`, "X-Github-Delivery": `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, "X-Github-Hook-Id": `^\d+$`,
			"X-Github-Hook-Installation-Target-Id": fmt.Sprintf("^%d$", w.app.ID), "X-Github-Hook-Installation-Target-Type": `^integration$`,
			"X-Hub-Signature": `^sha1=[0-9a-f]{40}$`, "X-Hub-Signature-256": `^sha256=[0-9a-f]{64}$`, "User-Agent": `^GitHub-Hookshot/[0-9a-f]{7}$`,
			"Content-Type": `^application/json$`, "Accept": `^\*/\*$`,
		} {
			if got := h.header.Get(name); !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("%s: %q", name, got)
			}
		}
	})
	t.Run("is signed over its exact body", func(t *testing.T) {
		const secret = "the-secret-of-the-webhook-0123456789"
		one, two := hmac.New(sha1.New, []byte(secret)), hmac.New(sha256.New, []byte(secret))
		one.Write(h.body)
		two.Write(h.body)
		if "sha1="+hex.EncodeToString(one.Sum(nil)) != h.header.Get("X-Hub-Signature") || "sha256="+hex.EncodeToString(two.Sum(nil)) != h.header.Get("X-Hub-Signature-256") {
			t.Error("the signatures do not fit")
		}
	})
	t.Run("names installation, repository, organisation and sender; a review's state is in lower case", func(t *testing.T) {
		if h.at("installation", "id") != float64(w.inst) || h.at("repository", "full_name") != "acme/widgets" || h.at("organization", "login") != "acme" ||
			h.at("sender", "login") != "alice" || h.at("review", "state") != "approved" {
			t.Errorf("payload %s", h.body)
		}
	})
	t.Run("without a secret is not signed", func(t *testing.T) {
		w.sim.SetWebhook(w.app.ID, w.hook.url, "")
		w.do(w.sim.Retitle(repoName, n, "x", ""))
		w.settle()
		hooks := w.hook.hooks()
		if got := hooks[len(hooks)-1].header.Get("X-Hub-Signature-256"); got != "" {
			t.Errorf("signature %q", got)
		}
	})
	t.Run("of Enterprise Server names its version and host", func(t *testing.T) {
		w := newWorld(t, func(o *githubsim.Options) { o.Enterprise = "3.17.2" })
		w.settle()
		if got := w.hook.hooks()[0].header.Get("X-Github-Enterprise-Version"); got != "3.17.2" {
			t.Errorf("X-GitHub-Enterprise-Version %q", got)
		}
	})
}

func TestWebhooksOfEachVerb(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(s *githubsim.Sim, n int) error
		want []string
	}{
		"push": {func(s *githubsim.Sim, n int) error { _, err := s.Push(repoName, n, "dave", fileX); return err }, []string{"push", "pull_request.synchronize"}},
		"push to the base": {func(s *githubsim.Sim, _ int) error {
			_, err := s.PushBase(repoName, "main", "alice", fileX)
			return err
		}, []string{"push"}},
		"close": {func(s *githubsim.Sim, n int) error { return s.ClosePull(repoName, n, "dave") }, []string{"pull_request.closed"}},
		"close and reopen": {func(s *githubsim.Sim, n int) error {
			if err := s.ClosePull(repoName, n, "dave"); err != nil {
				return err
			}
			return s.ReopenPull(repoName, n, "dave")
		}, []string{"pull_request.closed", "pull_request.reopened"}},
		"merge":       {func(s *githubsim.Sim, n int) error { _, err := s.MergePull(repoName, n, "alice"); return err }, []string{"pull_request.closed", "push"}},
		"draft":       {func(s *githubsim.Sim, n int) error { return s.SetDraft(repoName, n, true, "dave") }, []string{"pull_request.converted_to_draft"}},
		"a new label": {func(s *githubsim.Sim, n int) error { return s.Label(repoName, n, "new", "alice") }, []string{"label.created", "pull_request.labeled"}},
		"request a review": {func(s *githubsim.Sim, n int) error {
			return s.RequestReview(repoName, n, []string{"alice"}, nil, "dave")
		}, []string{"pull_request.review_requested"}},
		"a member joins a team":  {func(s *githubsim.Sim, _ int) error { return s.AddTeamMember("acme", "core", "frank") }, []string{"membership.added"}},
		"a member leaves a team": {func(s *githubsim.Sim, _ int) error { return s.RemoveTeamMember("acme", "core", "bob") }, []string{"membership.removed"}},
		"an invitation":          {func(s *githubsim.Sim, _ int) error { return s.InviteTeamMember("acme", "core", "frank") }, nil},
		"a team turns secret": {func(s *githubsim.Sim, _ int) error {
			return s.EditTeam("acme", "core", githubsim.TeamEdit{Privacy: "secret"})
		}, []string{"team.edited"}},
		"a team loses a repository": {func(s *githubsim.Sim, _ int) error { return s.SetTeamPermission("acme", "core", "widgets", "") }, []string{"team.removed_from_repository"}},
		"a team's right changes":    {func(s *githubsim.Sim, _ int) error { return s.SetTeamPermission("acme", "core", "widgets", "pull") }, []string{"team.edited"}},
		"a team is deleted":         {func(s *githubsim.Sim, _ int) error { return s.DeleteTeam("acme", "core") }, []string{"team.deleted"}},
		"a new collaborator":        {func(s *githubsim.Sim, _ int) error { return s.SetCollaborator(repoName, "frank", "push") }, []string{"member.added"}},
		"someone leaves":            {func(s *githubsim.Sim, _ int) error { return s.SetOrgRole("acme", "bob", "") }, []string{"organization.member_removed"}},
		"rename the repository":     {func(s *githubsim.Sim, _ int) error { return s.RenameRepo(repoName, "x") }, []string{"repository.renamed"}},
		"archive":                   {func(s *githubsim.Sim, _ int) error { return s.SetArchived(repoName, true) }, []string{"repository.archived"}},
		"rename the organisation":   {func(s *githubsim.Sim, _ int) error { return s.RenameOrg("acme", "acme-inc") }, []string{"installation_target.renamed"}},
		"delete the repository":     {func(s *githubsim.Sim, _ int) error { return s.DeleteRepo(repoName) }, []string{"repository.deleted"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			n := w.pull(nil)
			w.settle()
			w.hook.clear()
			w.do(c.do(w.sim, n))
			w.settle()
			if diff := cmp.Diff(c.want, w.hook.names()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a head on a fork reaches the base repository", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.settle()
		w.hook.clear()
		n, err := w.sim.OpenPull(repoName, githubsim.Pull{Author: "mallory", Fork: "mallory", Files: fileX})
		w.do(err)
		_, err = w.sim.Push(repoName, n, "mallory", map[string]string{"y": "z"})
		w.do(err)
		w.settle()
		if diff := cmp.Diff([]string{"pull_request.opened", "pull_request.synchronize"}, w.hook.names()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("only what is subscribed to and granted is sent", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		quiet := newReceiver(t)
		app := w.sim.AddApp(githubsim.App{Slug: "quiet", PrivateKey: testKey(), WebhookURL: quiet.url, Events: []string{"pull_request", "push"}, Permissions: map[string]string{"pull_requests": "read"}})
		w.sim.AddInstallation(app.ID, "acme")
		n := w.pull(nil)
		w.review(n, "alice", "APPROVED")
		w.settle()
		if diff := cmp.Diff([]string{"installation.created", "pull_request.opened"}, quiet.names()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

var fileX = map[string]string{"x": "y"}

func TestAPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settle()
	w.hook.clear()
	_, err := w.sim.PushBase(repoName, "main", "alice", map[string]string{"new": "1", "README.md": "changed\n", "docs/index.md": githubsim.Deleted})
	w.do(err)
	w.settle()
	h := w.hook.hooks()[0]
	commit := h.at("commits", 0)
	want := fields{"added": []any{"new"}, "modified": []any{"README.md"}, "removed": []any{"docs/index.md"}}
	got := fields{"added": at(commit, "added"), "modified": at(commit, "modified"), "removed": at(commit, "removed")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commit (-want +got):\n%s", diff)
	}
	if h.at("ref") != "refs/heads/main" || h.at("forced") != false || h.at("deleted") != false {
		t.Errorf("payload %s", h.body)
	}
	if _, number := h.at("repository", "created_at").(float64); !number {
		t.Errorf("repository.created_at of a push is %v, want an epoch", h.at("repository", "created_at"))
	}
}

func TestTheDeliveryLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settle()
	w.hook.answer(500)
	n := w.pull(nil)
	w.settle()
	w.hook.answer(202)
	w.do(w.sim.Retitle(repoName, n, "x", ""))
	w.settle()
	list := w.get("/app/hook/deliveries", w.jwt()).want(200)
	events := func(r reply) (list []string) {
		for _, d := range r.list() {
			list = append(list, fmt.Sprint(d["event"], " ", d["status"], " ", d["status_code"]))
		}
		return list
	}
	t.Run("is newest first and says how it went", func(t *testing.T) {
		want := []string{"pull_request OK 202", "pull_request Invalid HTTP Response: 500 500", "push Invalid HTTP Response: 500 500", "installation OK 202"}
		if diff := cmp.Diff(want, events(list)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("filters answers of 400 to 599 as failures", func(t *testing.T) {
		if got := events(w.get("/app/hook/deliveries?status=failure", w.jwt()).want(200)); len(got) != 2 {
			t.Errorf("failures %v", got)
		}
	})
	t.Run("is paged by cursor, with next and prev only", func(t *testing.T) {
		seen := 0
		for next := "/app/hook/deliveries?per_page=3"; next != ""; {
			r := w.get(next, w.jwt()).want(200)
			seen += len(r.list())
			rels, targets := links(r)
			if slices.Contains(rels, "last") || slices.Contains(rels, "first") {
				t.Errorf("links %v", rels)
			}
			if next = targets["next"]; next != "" && !strings.Contains(next, "cursor=v1_") {
				t.Errorf("next %s", next)
			}
		}
		if seen != 4 {
			t.Errorf("%d deliveries, want 4", seen)
		}
	})
	id := list.id(1, "id")
	t.Run("shows request and response of one", func(t *testing.T) {
		r := w.get(fmt.Sprintf("/app/hook/deliveries/%d", id), w.jwt()).want(200)
		if r.str("request", "payload", "action") != "opened" || r.str("request", "headers", "X-GitHub-Event") != "pull_request" || r.str("response", "payload") != `{"accepted":true}` {
			t.Errorf("delivery %s", r.raw)
		}
	})
	t.Run("a redelivery is 202, keeps the GUID, and is a new entry", func(t *testing.T) {
		w.hook.clear()
		if r := w.call("POST", fmt.Sprintf("/app/hook/deliveries/%d/attempts", id), w.jwt(), nil).want(202); string(r.raw) != "{}" {
			t.Errorf("body %s", r.raw)
		}
		w.settle()
		r := w.get("/app/hook/deliveries", w.jwt()).want(200)
		if r.str(0, "guid") != list.str(1, "guid") || r.at(0, "redelivery") != true || r.id(0, "id") == id {
			t.Errorf("newest: %v", r.at(0))
		}
		if h := w.hook.hooks()[0]; h.header.Get("X-Github-Delivery") != list.str(1, "guid") || h.name() != "pull_request.opened" {
			t.Errorf("sent %s", h.name())
		}
		w.call("POST", "/app/hook/deliveries/1/attempts", w.jwt(), nil).want(404)
	})
	t.Run("forgets after three days", func(t *testing.T) {
		now := time.Now()
		var mu sync.Mutex
		w := newWorld(t, func(o *githubsim.Options) {
			o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
		})
		w.settle()
		id := w.get("/app/hook/deliveries", w.jwt()).want(200).id(0, "id")
		mu.Lock()
		now = now.Add(73 * time.Hour)
		mu.Unlock()
		later := w.jwt(func(m jwt.MapClaims) { m["iat"], m["exp"] = now.Add(-time.Minute).Unix(), now.Add(time.Minute).Unix() })
		if got := w.get("/app/hook/deliveries", later).want(200).list(); len(got) != 0 {
			t.Errorf("still lists %v", got)
		}
		w.call("POST", fmt.Sprintf("/app/hook/deliveries/%d/attempts", id), later, nil).want(404)
	})
	t.Run("is another App's business", func(t *testing.T) {
		other := w.sim.AddApp(githubsim.App{Slug: "other", PrivateKey: testKey()})
		second := &world{t: t, sim: w.sim, app: other}
		if got := second.get("/app/hook/deliveries", second.jwt()).want(200).list(); len(got) != 0 {
			t.Errorf("sees %v", got)
		}
		second.get(fmt.Sprintf("/app/hook/deliveries/%d", id), second.jwt()).want(404)
	})
}

func TestATooLargeWebhookIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settle()
	w.hook.clear()
	_, err := w.sim.OpenPull(repoName, githubsim.Pull{Author: "dave", Body: strings.Repeat("x", 26<<20), Files: fileX})
	w.do(err)
	w.settle()
	if diff := cmp.Diff([]string{"push"}, w.hook.names()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWebhookFaults(t *testing.T) {
	t.Parallel()
	setUp := func(t *testing.T, opts ...func(*githubsim.Options)) (*world, int) {
		t.Helper()
		w := newWorld(t, opts...)
		n := w.pull(nil)
		w.settle()
		w.hook.clear()
		return w, n
	}
	review := func(w *world, n int) {
		w.review(n, "alice", "APPROVED")
		w.settle()
	}
	t.Run("dropped: never sent and in no log", func(t *testing.T) {
		t.Parallel()
		w, n := setUp(t)
		before := len(w.sim.Deliveries(w.app.ID))
		w.sim.InjectWebhook(githubsim.WebhookFault{Event: "pull_request_review"})
		review(w, n)
		if len(w.hook.hooks()) != 0 || len(w.sim.Deliveries(w.app.ID)) != before {
			t.Errorf("sent %v", w.hook.names())
		}
		review(w, n) // only the first
		if len(w.hook.hooks()) != 1 {
			t.Errorf("then sent %v", w.hook.names())
		}
	})
	t.Run("unreachable: in the log without a status code, to be redelivered", func(t *testing.T) {
		t.Parallel()
		w, n := setUp(t)
		w.sim.InjectWebhook(githubsim.WebhookFault{Fate: githubsim.WebhookUnreachable})
		review(w, n)
		r := w.get("/app/hook/deliveries?per_page=1", w.jwt()).want(200)
		if r.str(0, "status") != "failed to connect" || r.str(0, "status_code") != "0" || len(w.hook.hooks()) != 0 {
			t.Errorf("newest: %v", r.at(0))
		}
		if got := w.get("/app/hook/deliveries?status=failure", w.jwt()).list(); len(got) != 0 {
			t.Errorf("the filter shows %v", got)
		}
		w.sim.Redeliver(w.app.ID, r.id(0, "id"))
		w.settle()
		if len(w.hook.hooks()) != 1 {
			t.Error("not redelivered")
		}
	})
	t.Run("doubled: twice under one GUID", func(t *testing.T) {
		t.Parallel()
		w, n := setUp(t)
		w.sim.InjectWebhook(githubsim.WebhookFault{Fate: githubsim.WebhookDoubled})
		review(w, n)
		h := w.hook.hooks()
		if len(h) != 2 || h[0].header.Get("X-Github-Delivery") != h[1].header.Get("X-Github-Delivery") {
			t.Errorf("sent %v", w.hook.names())
		}
	})
	t.Run("delayed: later, and others wait for it or not by the number of senders", func(t *testing.T) {
		t.Parallel()
		w, n := setUp(t, func(o *githubsim.Options) { o.DeliveryConcurrency = 2 })
		w.sim.InjectWebhook(githubsim.WebhookFault{Event: "pull_request_review", Fate: githubsim.WebhookDelayed, Delay: 200 * time.Millisecond})
		w.review(n, "alice", "APPROVED")
		w.do(w.sim.Retitle(repoName, n, "x", ""))
		w.settle()
		if diff := cmp.Diff([]string{"pull_request.edited", "pull_request_review.submitted"}, w.hook.names()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("held back and released in another order", func(t *testing.T) {
		t.Parallel()
		w, n := setUp(t)
		for seed, same := range map[int64]bool{0: true, -1: false} {
			w.hook.clear()
			w.sim.HoldWebhooks()
			w.review(n, "alice", "COMMENTED")
			w.do(w.sim.Retitle(repoName, n, fmt.Sprint(seed), ""))
			w.settle()
			if len(w.hook.hooks()) != 0 {
				t.Fatalf("sent while held: %v", w.hook.names())
			}
			w.sim.ReleaseWebhooks(seed)
			w.settle()
			want := []string{"pull_request_review.submitted", "pull_request.edited"}
			if !same {
				slices.Reverse(want)
			}
			if diff := cmp.Diff(want, w.hook.names()); diff != "" {
				t.Errorf("seed %d (-want +got):\n%s", seed, diff)
			}
		}
	})
	t.Run("a receiver that does not answer in time is logged as timed out", func(t *testing.T) {
		t.Parallel()
		w, n := setUp(t, func(o *githubsim.Options) { o.DeliveryTimeout = 50 * time.Millisecond })
		w.hook.mu.Lock()
		block := make(chan struct{})
		w.hook.block = block
		w.hook.mu.Unlock()
		review(w, n)
		close(block)
		if got := w.get("/app/hook/deliveries?per_page=1", w.jwt()).want(200).str(0, "status"); got != "timed out" {
			t.Errorf("status %s", got)
		}
	})
}
