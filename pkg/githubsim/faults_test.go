package githubsim_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/githubsim"
)

const createRun = "/repos/{owner}/{repo}/check-runs"

func TestFaults(t *testing.T) {
	t.Parallel()
	// post creates a run and tells how many runs there are then.
	post := func(w *world, head, token string) (r reply, made int) {
		w.t.Helper()
		r = w.call("POST", runs, token, fields{"name": "gate", "head_sha": head})
		return r, len(w.sim.Checks(repoName, head))
	}
	for name, c := range map[string]struct {
		fault  githubsim.Fault
		status int
		made   int
	}{
		"before it is applied: an error and no effect":      {githubsim.Fault{Method: "POST", Route: createRun}, 502, 0},
		"after it was applied: an error and the effect":     {githubsim.Fault{Method: "POST", Route: createRun, Applied: true, Status: 504}, 504, 1},
		"a lie: a success and no effect":                    {githubsim.Fault{Method: "POST", Route: createRun, Lie: true}, 201, 0},
		"HTML instead of JSON, before":                      {githubsim.Fault{Answer: githubsim.AnswerHTML, Status: 503}, 503, 0},
		"half of the answer, after":                         {githubsim.Fault{Answer: githubsim.AnswerTruncated}, 201, 1},
		"a page instead of the answer, after":               {githubsim.Fault{Answer: githubsim.AnswerNotJSON}, 201, 1},
		"hang up before":                                    {githubsim.Fault{Answer: githubsim.AnswerHangUp}, 0, 0},
		"hang up after":                                     {githubsim.Fault{Answer: githubsim.AnswerHangUp, Applied: true}, 0, 1},
		"another method or route is left alone":             {githubsim.Fault{Method: "PATCH"}, 201, 1},
		"only a body that contains the text":                {githubsim.Fault{Contain: "never"}, 201, 1},
		"skip lets the first pass":                          {githubsim.Fault{Skip: 1}, 201, 1},
		"a delay alone changes nothing":                     {githubsim.Fault{Answer: githubsim.AnswerTruth, Delay: time.Millisecond}, 201, 1},
		"a rate limit before it is applied leaves no trace": {githubsim.Fault{Answer: githubsim.AnswerSecondary}, 403, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, head, token := onHead(t, githubsim.Switches{})
			w.sim.Inject(c.fault)
			r, made := post(w, head, token)
			if r.status != c.status || made != c.made {
				t.Errorf("status %d with %d runs, want %d with %d: %s", r.status, made, c.status, c.made, r.raw)
			}
			if c.fault.Answer == githubsim.AnswerTruncated || c.fault.Answer == githubsim.AnswerNotJSON {
				var v any
				if err := jsonOf(r.raw, &v); err == nil {
					t.Errorf("still JSON: %s", r.raw)
				}
			}
		})
	}
	t.Run("a hang-up closes a real connection, and is logged with status 0", func(t *testing.T) {
		t.Parallel()
		w, head, token := onHead(t, githubsim.Switches{})
		w.wire = true
		w.sim.Inject(githubsim.Fault{Answer: githubsim.AnswerHangUp, Method: "POST"})
		if r, _ := post(w, head, token); r.err == nil {
			t.Errorf("answered %d", r.status)
		}
		log := w.sim.Requests()
		if last := log[len(log)-1]; last.Status != 0 || last.Route != createRun {
			t.Errorf("logged %+v", last)
		}
	})
	t.Run("so many times, then never; forever until cleared", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		token := w.token()
		w.sim.Inject(githubsim.Fault{Times: 2})
		var got []int
		for range 3 {
			got = append(got, w.get("/repos/acme/widgets", token).status)
		}
		w.sim.Inject(githubsim.Fault{Times: -1, Status: 500})
		got = append(got, w.get("/repos/acme/widgets", token).status, w.get("/repos/acme/widgets", token).status)
		w.sim.ClearFaults()
		got = append(got, w.get("/repos/acme/widgets", token).status)
		if diff := cmp.Diff([]int{502, 502, 200, 500, 500, 200}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("a lie sends no webhook", func(t *testing.T) {
		t.Parallel()
		w, head, token := onHead(t, githubsim.Switches{})
		w.settle()
		w.hook.clear()
		w.sim.Inject(githubsim.Fault{Lie: true})
		post(w, head, token)
		w.settle()
		if names := w.hook.names(); len(names) != 0 {
			t.Errorf("sent %v", names)
		}
	})
	t.Run("latency delays every answer", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		token := w.token()
		w.sim.Set(githubsim.Switches{Latency: 30 * time.Millisecond})
		start := time.Now()
		w.get("/repos/acme/widgets", token).want(200)
		if took := time.Since(start); took < 30*time.Millisecond {
			t.Errorf("answered after %s", took)
		}
	})
}

func TestReadsThatLagWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n, token := w.pull(nil), w.token()
	w.sim.Set(githubsim.Switches{ReadLag: 2})
	count := func() int {
		return len(w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d/reviews", n), token).want(200).list())
	}
	graph := func() int {
		return int(w.graphql(token, pr(`reviews(first: 10) { totalCount }`), nil).id("data", "repository", "pullRequest", "reviews", "totalCount"))
	}
	w.review(n, "alice", "APPROVED")
	w.review(n, "bob", "APPROVED")
	t.Run("show a write after so many reads, REST and GraphQL alike", func(t *testing.T) {
		got := []int{count(), graph(), count()}
		if diff := cmp.Diff([]int{0, 0, 2}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("do not hide a write from a write", func(t *testing.T) {
		head := w.sim.Head(repoName, n)
		id := w.newRun(token, head, nil)
		w.get(runPath(id), token).want(404)
		w.call("PATCH", runPath(id), token, completed("success")).want(200)
	})
	t.Run("are over when the switch is off", func(t *testing.T) {
		w.review(n, "carol", "APPROVED")
		w.sim.Set(githubsim.Switches{})
		if got := count(); got != 3 {
			t.Errorf("%d reviews", got)
		}
	})
}

func TestTheRequestLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n, token := w.pull(nil), w.token()
	w.sim.ResetRequests()
	w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d", n), token).want(200)
	w.get("/repositories/1/nothing", token).want(404)
	w.graphql(token, "{ rateLimit { cost } }", nil)
	want := map[string]int{"GET /repos/{owner}/{repo}/pulls/{number}": 1, "GET ": 1, "POST /graphql": 1}
	if diff := cmp.Diff(want, w.sim.CountRequests()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r := w.sim.Requests()[0]; r.Installation != w.inst || r.App != w.app.ID || r.Status != 200 || r.Cost != 1 {
		t.Errorf("logged %+v", r)
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *githubsim.Options) { o.DeliveryConcurrency = 4 })
	w.sim.Set(githubsim.Switches{ReadLag: 1})
	token := w.token()
	var all sync.WaitGroup
	for i := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			n, err := w.sim.OpenPull(repoName, githubsim.Pull{Author: "dave", Branch: fmt.Sprintf("b%d", i), Files: map[string]string{fmt.Sprint(i): "x"}})
			if err != nil {
				t.Error(err)
				return
			}
			for j := range 5 {
				if _, err := w.sim.Push(repoName, n, "dave", map[string]string{fmt.Sprint(i): fmt.Sprint(j)}); err != nil {
					t.Error(err)
				}
				if _, err := w.sim.Review(repoName, n, "alice", "APPROVED"); err != nil {
					t.Error(err)
				}
				w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d/reviews", n), token)
				w.get("/repos/acme/widgets/pulls", token)
				w.get("/", "")
				w.graphql(token, pr(`reviews(first: 5) { totalCount }`), nil)
				w.call("POST", runs, token, fields{"name": "gate", "head_sha": w.sim.Head(repoName, n)})
			}
		}()
	}
	all.Wait()
	w.settle()
	w.sim.Set(githubsim.Switches{})
	if got := len(w.get("/repos/acme/widgets/pulls", token).want(200).list()); got != 8 {
		t.Errorf("%d pull requests", got)
	}
	pushes := 0
	for _, name := range w.hook.names() {
		if name == "pull_request.synchronize" {
			pushes++
		}
	}
	if pushes != 40 {
		t.Errorf("%d synchronize webhooks, want 40", pushes)
	}
}

func TestThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n, err := w.sim.OpenPull(repoName, githubsim.Pull{Author: "dave", Title: "<b>bold</b>", Files: fileX})
	w.do(err)
	w.review(n, "alice", "APPROVED")
	w.newRun(w.token(), w.sim.Head(repoName, n), completed("success"))
	text := string(w.get("/", "").want(200).raw)
	for _, want := range []string{"acme/widgets", "&lt;b&gt;bold&lt;/b&gt;", "alice approved", "gate: success"} {
		if !contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if contains(text, "<b>bold") {
		t.Error("the page shows a title as markup")
	}
	if got := string(w.get("/acme/widgets/pull/1", "").want(200).raw); !contains(got, "acme/widgets") {
		t.Error("the html_url of a pull request leads nowhere")
	}
}

// BenchmarkListingAThousandPulls is one page of a large world.
func BenchmarkListingAThousandPulls(b *testing.B) {
	sim := githubsim.New(githubsim.Options{Listen: "-"})
	defer sim.Close()
	sim.AddUser("alice")
	sim.AddRepo("alice", "r", map[string]string{"a": "b\n"})
	for i := range 1000 {
		if _, err := sim.OpenPull("alice/r", githubsim.Pull{Author: "bob", Files: map[string]string{"a": fmt.Sprint(i)}}); err != nil {
			b.Fatal(err)
		}
	}
	w := &world{sim: sim}
	token := sim.UserToken("alice")
	b.ResetTimer()
	for b.Loop() {
		w.bench(b, "/repos/alice/r/pulls?per_page=100&page=5", token)
	}
}

// BenchmarkAChangeWhileReadsLag copies a world of a thousand pull requests.
func BenchmarkAChangeWhileReadsLag(b *testing.B) {
	sim := githubsim.New(githubsim.Options{Listen: "-"})
	defer sim.Close()
	sim.AddUser("alice")
	sim.AddRepo("alice", "r", map[string]string{"a": "b\n"})
	for i := range 1000 {
		if _, err := sim.OpenPull("alice/r", githubsim.Pull{Author: "bob", Files: map[string]string{"a": fmt.Sprint(i)}}); err != nil {
			b.Fatal(err)
		}
	}
	token := sim.UserToken("alice")
	sim.Set(githubsim.Switches{ReadLag: 1})
	w := &world{sim: sim}
	for i := 0; b.Loop(); i++ {
		if err := sim.Retitle("alice/r", 1, fmt.Sprint(i), "alice"); err != nil {
			b.Fatal(err)
		}
		w.bench(b, "/rate_limit", token)
	}
}
