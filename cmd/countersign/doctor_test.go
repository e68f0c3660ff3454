package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/probe"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/nudge/localnats"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// patient is a world that doctor examines.
type patient struct {
	sim *githubsim.Sim
	ex  githubsim.Example
	env map[string]string
}

func newPatient(t *testing.T, app githubsim.App, o githubsim.Options) *patient {
	t.Helper()
	p := &patient{sim: githubsim.New(o)}
	t.Cleanup(p.sim.Close)
	p.ex = githubsim.AddExample(p.sim, githubsim.ExampleOptions{App: app})
	p.env = map[string]string{
		"COUNTERSIGN_GITHUB_API_URL": p.sim.URL(), "COUNTERSIGN_GITHUB_APP_ID": fmt.Sprint(p.ex.App.ID),
		"COUNTERSIGN_GITHUB_PRIVATE_KEY": string(p.ex.App.PEM),
	}
	return p
}

func (p *patient) environ() []string {
	var list []string
	for k, v := range p.env {
		list = append(list, k+"="+v)
	}
	return list
}

// github are the lines of GitHub alone.
func (p *patient) github(t *testing.T) []doctorLine {
	t.Helper()
	_, lines := checkGitHub(t.Context(), p.environ())
	return lines
}

// says finds the lines of one check with a result.
func says(lines []doctorLine, check, result string) string {
	var text []string
	for _, l := range lines {
		if strings.HasPrefix(l.Check, check) && l.Result == result {
			text = append(text, l.Says+"; "+l.Mend)
		}
	}
	return strings.Join(text, "\n")
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	t.Run("a healthy installation has no failure", func(t *testing.T) {
		t.Parallel()
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
		t.Cleanup(receiver.Close)
		p := newPatient(t, githubsim.App{WebhookURL: receiver.URL, WebhookSecret: "signed"}, githubsim.Options{})
		if err := p.sim.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		nats, err := localnats.Start(t.Context(), localnats.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nats.Close)
		p.env["COUNTERSIGN_DATABASE_URL"] = storetest.New(t).URL(storetest.Evaluator)
		p.env["COUNTERSIGN_NATS_URL"] = nats.URL()
		p.env["COUNTERSIGN_WEBHOOK_SECRET"] = strings.Repeat("s", 40) // another service's setting is no mistake
		lines := examine(t.Context(), p.environ(), 10)
		for _, l := range lines {
			if l.Result == doctorFail {
				t.Errorf("%+v", l)
			}
		}
		for _, check := range []string{"database", "nats", "github settings", "github server", "clock", "github app", "permissions", "events", "installation", "webhooks", "webhook deliveries", "policy acme/widgets"} {
			if says(lines, check, doctorOK) == "" {
				t.Errorf("%s is not fine: %+v", check, lines)
			}
		}
		if got := says(lines, "events", doctorWarn); !strings.Contains(got, "issue_comment") || strings.Contains(got, "merge_group") {
			t.Errorf("warned of %q", got)
		}
	})
	t.Run("what is missing is named with its mend", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t, githubsim.App{
			Permissions: map[string]string{"checks": "write", "contents": "read", "pull_requests": "read"}, Events: []string{"pull_request", "push", "check_run"},
		}, githubsim.Options{})
		p.env["COUNTERSIGN_DATABASE_URL"] = "postgres://nobody@127.0.0.1:1/nothing"
		lines := examine(t.Context(), p.environ(), 10)
		for check, want := range map[string]string{"database": "127.0.0.1", "permissions": "members:read", "events": "pull_request_review", "installation": "members:read"} {
			if got := says(lines, check, doctorFail); !strings.Contains(got, want) {
				t.Errorf("%s: %q does not name %s", check, got, want)
			}
		}
		if got := says(lines, "permissions", doctorWarn); !strings.Contains(got, "merge_queues:read") {
			t.Errorf("merge queues: %q", got)
		}
		if got := says(lines, "nats", doctorWarn); !strings.Contains(got, "COUNTERSIGN_NATS_URL") {
			t.Errorf("nats: %q", got)
		}
	})
	t.Run("a suspended installation and one that has not accepted are told apart", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t, githubsim.App{}, githubsim.Options{})
		fewer := maps.Clone(githubsim.DefaultPermissions())
		delete(fewer, "merge_queues")
		if err := p.sim.GrantPermissions(p.ex.Installation, fewer); err != nil {
			t.Fatal(err)
		}
		if got := says(p.github(t), "installation", doctorWarn); !strings.Contains(got, "merge_queues") {
			t.Errorf("got %q", got)
		}
		if err := p.sim.SuspendInstallation(p.ex.Installation); err != nil {
			t.Fatal(err)
		}
		if got := says(p.github(t), "installation", doctorWarn); !strings.Contains(got, "suspended") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("settings are named, and a key is in no line", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t, githubsim.App{}, githubsim.Options{})
		key := p.env["COUNTERSIGN_GITHUB_PRIVATE_KEY"]
		p.env["COUNTERSIGN_GITHUB_PRIVATE_KEY"] = key[:400]
		got := says(p.github(t), "github settings", doctorFail)
		if !strings.Contains(got, "COUNTERSIGN_GITHUB_PRIVATE_KEY") || strings.Contains(got, strings.Split(key, "\n")[2][:16]) {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a server that does not serve the version is refused with what it serves", func(t *testing.T) {
		t.Parallel()
		p := newPatient(t, githubsim.App{}, githubsim.Options{Enterprise: "3.17.2"})
		p.env["COUNTERSIGN_GITHUB_API_URL"] += "/api/v3/"
		p.env["COUNTERSIGN_GITHUB_API_VERSION"] = "2026-03-10"
		if got := says(p.github(t), "github server", doctorFail); !strings.Contains(got, "3.17.2") || !strings.Contains(got, "2022-11-28") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a clock that is off is a failure", func(t *testing.T) {
		t.Parallel()
		for skew, want := range map[time.Duration]string{0: doctorOK, -20 * time.Second: doctorOK, 2 * time.Minute: doctorFail, -2 * time.Minute: doctorFail} {
			if lines := serverLines(ghclient.Server{Date: time.Now(), Skew: skew}, "2022-11-28"); says(lines, "clock", want) == "" {
				t.Errorf("%s: %+v", skew, lines)
			}
		}
	})
}

func TestDoctorLive(t *testing.T) { // not parallel: the command reads the environment
	p := newPatient(t, githubsim.App{}, githubsim.Options{})
	for k, v := range p.env {
		t.Setenv(k, v)
	}
	p.sim.Set(githubsim.Switches{ReopenRun: githubsim.ReopenIgnored})
	number, err := p.sim.OpenPull(p.ex.Repository, githubsim.Pull{Author: "dave", Files: map[string]string{"src/x": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	doctor := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"doctor"}, args...), strings.NewReader(""), &out, &errs)
		return code, out.String(), errs.String()
	}
	where := []string{"--live", "--repository", p.ex.Repository, "--installation", fmt.Sprint(p.ex.Installation), "--pull", fmt.Sprint(number)}
	if code, _, errs := doctor("--live"); code != exitUsage || !strings.Contains(errs, "--repository") {
		t.Errorf("without a place: exit %d, %s", code, errs)
	}
	if code, out, errs := doctor(where...); code != exitFine || !strings.Contains(out, "ReopenRun = ReopenIgnored") || !strings.Contains(out, "SecretTeamsHidden: not probed: ") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	for _, c := range p.sim.Checks(p.ex.Repository, p.sim.Head(p.ex.Repository, number)) {
		if c.Name != probe.CheckName || c.Conclusion != "neutral" {
			t.Errorf("left behind: %+v", c)
		}
	}
	if code, _, errs := doctor(where...); code != exitUsage || !strings.Contains(errs, "--yes") || !strings.Contains(errs, "nothing was written") {
		t.Errorf("a name in use: exit %d, %s", code, errs)
	}
	code, out, errs := doctor(append(where, "--yes", "--json")...)
	if code != exitFine {
		t.Errorf("exit %d, %s", code, errs)
	}
	for line := range strings.Lines(out) {
		var r probe.Result
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Switch == "" || r.Position == "" && r.Reason == "" {
			t.Errorf("line %s: %v", line, err)
		}
	}
}
