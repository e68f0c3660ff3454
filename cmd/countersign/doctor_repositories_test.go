package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
)

func TestDoctorLooksAtRepositories(t *testing.T) {
	t.Parallel()
	const check = "Countersign / approval"
	for name, c := range map[string]struct {
		build        func(*patient)
		line, result string
		says         string
	}{
		"nobody requires it":     {func(*patient) {}, "required check acme/widgets", doctorWarn, "does not require"},
		"any source may give it": {func(p *patient) { p.require(githubsim.RequiredCheck{Context: check}) }, "required check acme/widgets", doctorWarn, "any source"},
		"another App has to": {func(p *patient) { p.require(githubsim.RequiredCheck{Context: check, AppID: 99, Ruleset: true}) },
			"required check acme/widgets", doctorFail, "another App (99)"},
		"pinned by protection": {func(p *patient) { p.require(githubsim.RequiredCheck{Context: check, AppID: p.ex.App.ID}) },
			"required check acme/widgets", doctorOK, "branch protection"},
		"pinned by a ruleset, whatever else is loose": {func(p *patient) {
			p.require(githubsim.RequiredCheck{Context: check})
			p.require(githubsim.RequiredCheck{Context: check, AppID: p.ex.App.ID, Ruleset: true})
		}, "required check acme/widgets", doctorOK, "ruleset"},
		"another check is no help":   {func(p *patient) { p.require(githubsim.RequiredCheck{Context: "lint"}) }, "required check acme/widgets", doctorWarn, "does not require"},
		"the policy is fine":         {func(*patient) {}, "policy acme/widgets", doctorOK, ".github/countersign.toml"},
		"the organization's is too":  {func(*patient) {}, "policy acme/.github", doctorOK, "organization"},
		"the policy cannot be read":  {func(p *patient) { p.push("enabled = maybe\n") }, "policy acme/widgets", doctorFail, ".github/countersign.toml:1:"},
		"the policy is switched off": {func(p *patient) { p.push("schema_version = 1\nenabled = false\n") }, "policy acme/widgets", doctorWarn, "enabled = false"},
		"two policies are ambiguous": {func(p *patient) { p.add(".github/extra-codeowners.toml") }, "policy acme/widgets", doctorFail, "ambiguous_policy"},
		"one without a policy is told": {func(p *patient) {
			p.sim.AddRepo("acme", "plain", map[string]string{"a": "b"})
			p.sim.AddRepo("acme", "empty", nil)
		}, "installation", doctorOK, "2 repositories have no policy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t, githubsim.App{}, githubsim.Options{})
			c.build(p)
			gh, _ := checkGitHub(t.Context(), p.environ())
			if got := says(gh.repositoryLines(t.Context(), 10), c.line, c.result); !strings.Contains(got, c.says) {
				t.Errorf("%s %s: %q lacks %q", c.result, c.line, got, c.says)
			}
		})
	}
	t.Run("what the bound leaves out is said", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t, githubsim.App{}, githubsim.Options{})
		gh, _ := checkGitHub(t.Context(), p.environ())
		if got := says(gh.repositoryLines(t.Context(), 1), "installation", doctorWarn); !strings.Contains(got, "1 repositories were not looked at") {
			t.Errorf("got %q", got)
		}
	})
}

func (p *patient) require(c githubsim.RequiredCheck) {
	c.Branch = "main"
	p.sim.RequireCheck(p.ex.Repository, c)
}

func (p *patient) push(text string) { p.write(".github/countersign.toml", text) }
func (p *patient) add(path string)  { p.write(path, "schema_version = 1\nenabled = true\n") }

func (p *patient) write(path, text string) {
	if _, err := p.sim.PushBase(p.ex.Repository, "main", "alice", map[string]string{path: text}); err != nil {
		panic(err) // the example has this branch
	}
}

func TestDoctorReadsTheDeliveryLog(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		newest ghclient.Delivery
		older  int
		result string
		says   string
	}{
		"no answer":         {ghclient.Delivery{Status: "timed out"}, 200, doctorFail, "GitHub cannot reach"},
		"another secret":    {ghclient.Delivery{StatusCode: 401}, 200, doctorFail, "COUNTERSIGN_WEBHOOK_SECRET"},
		"another receiver":  {ghclient.Delivery{StatusCode: 404}, 200, doctorFail, "/webhooks/github"},
		"not stored":        {ghclient.Delivery{StatusCode: 503}, 200, doctorFail, "database"},
		"all arrived":       {ghclient.Delivery{StatusCode: 202}, 202, doctorOK, "the last 2 arrived"},
		"one did not, then": {ghclient.Delivery{StatusCode: 202}, 500, doctorWarn, "1 of the last 2"},
	} {
		c.newest.DeliveredAt, c.newest.Event = now.Add(-time.Minute), "push"
		l := deliveryLine([]ghclient.Delivery{c.newest, {StatusCode: c.older, DeliveredAt: now.Add(-time.Hour)}}, now)
		if got := l.Says + "; " + l.Mend; l.Result != c.result || !strings.Contains(got, c.says) {
			t.Errorf("%s: %s %q", name, l.Result, got)
		}
	}
	if l := deliveryLine(nil, now); l.Result != doctorWarn {
		t.Errorf("an empty log: %+v", l)
	}
}

func TestDoctorJudgesTheHook(t *testing.T) {
	t.Parallel()
	good := ghclient.HookConfig{URL: "https://countersign.example/webhooks/github", ContentType: "json", Signed: true}
	for want, change := range map[string]func(*ghclient.HookConfig){
		"ok sent to":             func(*ghclient.HookConfig) {},
		"fail they are sent as":  func(h *ghclient.HookConfig) { h.ContentType = "form" },
		"fail they are not":      func(h *ghclient.HookConfig) { h.Signed = false },
		"warn GitHub does not":   func(h *ghclient.HookConfig) { h.InsecureSSL = true },
		"warn they are sent wit": func(h *ghclient.HookConfig) { h.URL = "http://countersign.example/webhooks/github" },
	} {
		h := good
		change(&h)
		if lines := hookLines(h); len(lines) != 1 || !strings.HasPrefix(lines[0].Result+" "+lines[0].Says, want) {
			t.Errorf("%s: %+v", want, lines)
		}
	}
	p := newPatient(t, githubsim.App{WebhookURL: "http://127.0.0.1:9/webhooks/github"}, githubsim.Options{})
	if err := p.sim.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	gh, _ := checkGitHub(t.Context(), p.environ())
	if got := fmt.Sprint(gh.webhookLines(t.Context())); !strings.Contains(got, "they are not signed") || !strings.Contains(got, "GitHub cannot reach") {
		t.Errorf("got %s", got)
	}
}
