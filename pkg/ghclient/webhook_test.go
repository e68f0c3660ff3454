package ghclient

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func sign(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func TestVerifySignature(t *testing.T) {
	t.Parallel()
	body := `{"action":"opened"}`
	for _, tt := range []struct {
		name    string
		secrets []string
		header  string
		body    string
		want    error
	}{
		{"RG-020 the raw body signed with our secret", []string{"s1"}, sign("s1", body), body, nil},
		{"RG-020 a body that differs by a space", []string{"s1"}, sign("s1", body), body + " ", ErrBadSignature},
		{"RG-020 a body that isn't JSON at all", []string{"s1"}, sign("s1", "\xff{"), "\xff{", nil},
		{"RG-021 no header", []string{"s1"}, "", body, ErrBadSignature},
		{"RG-021 sha1 prefix", []string{"s1"}, strings.Replace(sign("s1", body), "sha256=", "sha1=", 1), body, ErrBadSignature},
		{"RG-021 no prefix", []string{"s1"}, strings.TrimPrefix(sign("s1", body), "sha256="), body, ErrBadSignature},
		{"RG-021 cut short", []string{"s1"}, sign("s1", body)[:40], body, ErrBadSignature},
		{"RG-021 not hex", []string{"s1"}, "sha256=" + strings.Repeat("z", 64), body, ErrBadSignature},
		{"RG-021 another secret", []string{"s1"}, sign("s2", body), body, ErrBadSignature},
		{"first of two secrets", []string{"s1", "s2"}, sign("s1", body), body, nil},
		{"second of two secrets", []string{"s1", "s2"}, sign("s2", body), body, nil},
		{"RG-031 no secret", nil, sign("", body), body, ErrNoSecret},
		{"an empty secret is none", []string{""}, sign("", body), body, ErrNoSecret},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var secrets [][]byte
			for _, s := range tt.secrets {
				secrets = append(secrets, []byte(s))
			}
			if err := VerifySignature(secrets, tt.header, []byte(tt.body)); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// That the comparison takes constant time can't be measured here without flakes; what can be shown is that it is hmac.Equal that decides
// and that every secret is tried whatever an earlier one said.
func TestVerifySignatureTriesEverySecret(t *testing.T) {
	t.Parallel()
	t.Run("RG-022 the comparison is hmac.Equal", func(t *testing.T) {
		t.Parallel()
		source, err := os.ReadFile("webhook.go")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(source), "hmac.Equal(") || strings.Contains(string(source), "bytes.Equal") {
			t.Error("webhook.go must compare with hmac.Equal only")
		}
	})
	rapid.Check(t, func(t *rapid.T) { // RG-490, for the part that is ours
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		header := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 32, 32), func(b []byte) string {
			return "sha256=" + hex.EncodeToString(b)
		})).Draw(t, "header")
		if err := VerifySignature([][]byte{[]byte("right"), []byte("also right")}, header, body); err == nil {
			t.Fatalf("header %q accepted", header)
		}
	})
}

const (
	instJSON = `"installation":{"id":11}`
	repoJSON = `"repository":{"id":101,"full_name":"Acme/Shop","default_branch":"main","owner":{"login":"Acme"}}`
	orgJSON  = `"repository":{"id":102,"full_name":"Acme/.GitHub","default_branch":"main","owner":{"login":"Acme"}}`
	userJSON = `"sender":{"id":5,"login":"alice","type":"User"}`
)

func pullJSON(fields ...string) string {
	base := map[string]string{"number": "3", "state": `"open"`, "head": `{"sha":"` + shaA + `"}`, "base": `{"ref":"main","sha":"` + shaB + `"}`, "updated_at": `"2026-01-02T03:04:05Z"`}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		base[name] = value
	}
	var parts []string
	for name, value := range base {
		if value != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", name, value))
		}
	}
	return `"pull_request":{` + strings.Join(parts, ",") + "}"
}

func object(parts ...string) string { return "{" + strings.Join(parts, ",") + "}" }

func decode(t *testing.T, name, body string) (Event, error) {
	t.Helper()
	return DecodeEvent(name, []byte(body), AppIdentity{ID: testAppID}, ".github", []string{".github/countersign.toml", ".github/extra-codeowners.toml"})
}

func TestDecodeEventRefuses(t *testing.T) {
	t.Parallel()
	opened := func(parts ...string) string { return object(append([]string{`"action":"opened"`}, parts...)...) }
	for _, tt := range []struct{ name, event, body, field string }{
		{"RG-029 not JSON", "ping", `{`, ""},
		{"RG-029 not UTF-8", "ping", "{\"a\":\"\xff\"}", ""},
		{"RG-029 a list", "ping", `[]`, ""},
		{"RG-029 null", "ping", `null`, ""},
		{"RG-029 empty", "ping", ``, ""},
		{"RG-029 two objects", "ping", `{}{}`, ""},
		{"RG-030 action is a number", "ping", `{"action":1}`, "action"},
		{"RG-030 action is null", "ping", `{"action":null}`, "action"},
		{"RG-032 no installation", "pull_request", opened(repoJSON, pullJSON()), "installation"},
		{"RG-032 installation id is true", "pull_request", opened(`"installation":{"id":true}`, repoJSON, pullJSON()), "installation.id"},
		{"RG-032 installation id is text", "pull_request", opened(`"installation":{"id":"11"}`, repoJSON, pullJSON()), "installation.id"},
		{"RG-032 installation id is a fraction", "pull_request", opened(`"installation":{"id":11.0}`, repoJSON, pullJSON()), "installation.id"},
		{"RG-032 full name without a slash", "pull_request", opened(instJSON, `"repository":{"id":1,"full_name":"shop"}`, pullJSON()), "repository.full_name"},
		{"RG-032 full name with two slashes", "pull_request", opened(instJSON, `"repository":{"id":1,"full_name":"a/b/c"}`, pullJSON()), "repository.full_name"},
		{"RG-032 number is zero", "pull_request", opened(instJSON, repoJSON, pullJSON("number=0")), "pull_request.number"},
		{"RG-032 number is true", "pull_request", opened(instJSON, repoJSON, pullJSON("number=true")), "pull_request.number"},
		{"RG-032 number is negative", "pull_request", opened(instJSON, repoJSON, pullJSON("number=-3")), "pull_request.number"},
		{"RG-032 number is huge", "pull_request", opened(instJSON, repoJSON, pullJSON("number=99999999999999999999")), "pull_request.number"},
		{"two numbers", "pull_request", opened(instJSON, repoJSON, `"number":4`, pullJSON()), "number"},
		{"RG-032 no pull request", "pull_request", opened(instJSON, repoJSON), "pull_request"},
		{"RG-033 upper-case head", "pull_request", opened(instJSON, repoJSON, pullJSON(`head={"sha":"`+strings.ToUpper(shaA)+`"}`)), "pull_request.head.sha"},
		{"RG-033 39 characters", "pull_request", opened(instJSON, repoJSON, pullJSON(`head={"sha":"`+shaA[:39]+`"}`)), "pull_request.head.sha"},
		{"RG-033 50 characters", "pull_request", opened(instJSON, repoJSON, pullJSON(`head={"sha":"`+shaA+`aaaaaaaaaa"}`)), "pull_request.head.sha"},
		{"RG-033 no head", "pull_request", opened(instJSON, repoJSON, pullJSON("head=")), "pull_request.head"},
		{"RG-033 rerequest", "check_run", `{"action":"rerequested",` + instJSON + `,` + repoJSON + `,"check_run":{"id":9,"app":{"id":7},"head_sha":"x","pull_requests":[]}}`, "check_run.head_sha"},
		{"RG-034 state", "pull_request", opened(instJSON, repoJSON, pullJSON(`state="merged"`)), "pull_request.state"},
		{"RG-034 state of a review's pull request", "pull_request_review", `{"action":"submitted",` + instJSON + `,` + repoJSON + `,` + pullJSON(`state=null`) + `,"review":{"id":1,"state":"approved"}}`, "pull_request.state"},
		{"RG-032 push without repository", "push", `{"ref":"refs/heads/main","deleted":false,` + instJSON + `}`, "repository"},
		{"RG-032 label without installation", "label", `{"action":"created",` + repoJSON + `}`, "installation"},
		{"RG-032 organization without installation", "organization", `{"action":"member_added"}`, "installation"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := decode(t, tt.event, tt.body)
			var field *FieldError
			if !errors.As(err, &field) || field.Field != tt.field {
				t.Errorf("got %v, want a FieldError of %q", err, tt.field)
			}
		})
	}
}

func TestDecodeEventReads(t *testing.T) {
	t.Parallel()
	t.Run("RG-035 full names are lower case", func(t *testing.T) {
		t.Parallel()
		e, err := decode(t, "pull_request", object(`"action":"opened"`, instJSON, repoJSON, userJSON, pullJSON()))
		if err != nil {
			t.Fatal(err)
		}
		want := RepoRef{ID: 101, FullName: "acme/shop", DefaultBranch: "main"}
		if diff := cmp.Diff(want, e.Repository); diff != "" {
			t.Error(diff)
		}
		if !e.Mapped || e.Installation != 11 || e.AccountLogin != "acme" || e.OrgPolicy || e.Sender.Login != "alice" {
			t.Errorf("got %+v", e)
		}
		if p := e.Pull; p.Number != 3 || p.HeadSHA != shaA || p.BaseRef != "main" || p.State != "open" || p.Merged || p.UpdatedAt.Year() != 2026 {
			t.Errorf("got %+v", p)
		}
	})
	t.Run("RG-030 an absent action is empty", func(t *testing.T) {
		t.Parallel()
		if e, err := decode(t, "ping", `{}`); err != nil || e.Action != "" || e.Mapped {
			t.Errorf("got %+v, %v", e, err)
		}
	})
	t.Run("RG-033 a SHA-256 head is accepted", func(t *testing.T) {
		t.Parallel()
		e, err := decode(t, "pull_request", object(`"action":"opened"`, instJSON, repoJSON, pullJSON(`head={"sha":"`+strings.Repeat("c", 64)+`"}`)))
		if err != nil || len(e.Pull.HeadSHA) != 64 {
			t.Errorf("got %+v, %v", e.Pull, err)
		}
	})
	t.Run("an unmapped action is never refused for its fields", func(t *testing.T) {
		t.Parallel()
		for _, event := range []string{"pull_request", "check_run", "repository", "installation", "star", "workflow_run"} {
			if e, err := decode(t, event, `{"action":"assigned","pull_request":7,"repository":[],"installation":"x"}`); err != nil || e.Mapped {
				t.Errorf("%s: got %+v, %v", event, e, err)
			}
		}
	})
	t.Run("synchronize names the head that was left", func(t *testing.T) {
		t.Parallel()
		e, err := decode(t, "pull_request", object(`"action":"synchronize"`, `"before":"`+shaB+`"`, instJSON, repoJSON, pullJSON()))
		if err != nil || e.Pull.BeforeSHA != shaB {
			t.Errorf("got %+v, %v", e.Pull, err)
		}
	})
	t.Run("another App's check run is unmapped", func(t *testing.T) {
		t.Parallel()
		e, err := decode(t, "check_run", `{"action":"rerequested","check_run":{"app":{"id":8}}}`)
		if err != nil || e.Mapped {
			t.Errorf("got %+v, %v", e, err)
		}
	})
	t.Run("our check run", func(t *testing.T) {
		t.Parallel()
		e, err := decode(t, "check_run", object(`"action":"requested_action"`, instJSON, repoJSON, `"requested_action":{"identifier":"re-evaluate"}`,
			`"check_run":{"id":9,"name":"x","app":{"id":7},"head_sha":"`+shaA+`","pull_requests":[{"number":3},{"number":4}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&CheckRunRef{AppID: 7, ID: 9, Name: "x", HeadSHA: shaA, Pulls: []int{3, 4}, Identifier: "re-evaluate"}, e.CheckRun); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a review", func(t *testing.T) {
		t.Parallel()
		e, err := decode(t, "pull_request_review", object(`"action":"submitted"`, instJSON, repoJSON, pullJSON(),
			`"review":{"id":3312345678,"state":"APPROVED","commit_id":"`+shaA+`","submitted_at":"2026-01-02T03:04:06Z"}`))
		if err != nil || e.Review.ID != 3312345678 || e.Review.State != "approved" || e.Review.UpdatedAt.Second() != 6 {
			t.Errorf("got %+v, %v", e.Review, err)
		}
	})
	t.Run("a merge group", func(t *testing.T) {
		t.Parallel()
		e, err := decode(t, "merge_group", object(`"action":"checks_requested"`, instJSON, repoJSON,
			`"merge_group":{"head_sha":"`+shaA+`","head_ref":"refs/heads/q","base_sha":"`+shaB+`","base_ref":"refs/heads/main"}`))
		if err != nil || e.MergeGroup.HeadSHA != shaA || e.MergeGroup.BaseRef != "refs/heads/main" {
			t.Errorf("got %+v, %v", e.MergeGroup, err)
		}
	})
	t.Run("a comment on a pull request, and one on an issue", func(t *testing.T) {
		t.Parallel()
		comment := `"comment":{"id":77,"body":"/countersign break-glass head=x","user":{"id":5,"login":"alice","type":"User"},"updated_at":"2026-01-02T03:04:06Z"}`
		for body, mapped := range map[string]bool{"looks good": false, "see /countersign break-glass": false, "  /countersign confirm-break-glass x": true} {
			e, err := decode(t, "issue_comment", object(`"action":"created"`, instJSON, repoJSON, `"issue":{"number":3,"state":"open","pull_request":{}}`, strings.Replace(comment, "/countersign break-glass head=x", body, 1)))
			if err != nil || e.Mapped != mapped {
				t.Errorf("comment %q: mapped %v, %v", body, e.Mapped, err)
			}
		}
		edited, err := decode(t, "issue_comment", object(`"action":"edited"`, instJSON, repoJSON, `"issue":{"number":3,"state":"open","pull_request":{}}`,
			strings.Replace(comment, "/countersign break-glass head=x", "never mind", 1), `"changes":{"body":{"from":"/countersign break-glass head=x"}}`))
		if err != nil || !edited.Mapped {
			t.Errorf("a command that was edited away: mapped %v, %v", edited.Mapped, err)
		}
		e, err := decode(t, "issue_comment", object(`"action":"created"`, instJSON, repoJSON, `"issue":{"number":3,"state":"open","pull_request":{}}`, comment))
		if err != nil || !e.Mapped || e.Comment.Issue != 3 || !e.Comment.OnPull || e.Comment.Author.ID != 5 {
			t.Errorf("got %+v, %v", e.Comment, err)
		}
		e, err = decode(t, "issue_comment", object(`"action":"created"`, `"issue":{"number":3}`, comment))
		if err != nil || e.Mapped {
			t.Errorf("got %+v, %v", e, err)
		}
	})
}

func TestDecodeAuthority(t *testing.T) {
	t.Parallel()
	push := func(parts ...string) string {
		return object(append([]string{`"ref":"refs/heads/main"`, `"deleted":false`, instJSON, orgJSON}, parts...)...)
	}
	commits := func(paths ...string) string {
		quoted, _ := json.Marshal(paths)
		return fmt.Sprintf(`"commits":[{"added":[],"modified":%s,"removed":[]}]`, quoted)
	}
	for _, tt := range []struct {
		name, body                       string
		mapped, forced, complete, policy bool
	}{
		{"touches the policy", push(`"forced":false`, commits(".github/countersign.toml")), true, false, true, true},
		{"touches the other policy path", push(`"forced":false`, commits("x", ".github/extra-codeowners.toml")), true, false, true, true},
		{"touches something else", push(`"forced":false`, commits("countersign.toml")), true, false, true, false},
		{"forced", push(`"forced":true`, commits("a")), true, true, true, false},
		{"forced is missing", push(commits("a")), true, true, true, false},
		{"commits are missing", push(`"forced":false`), true, false, false, false},
		{"commits are no list", push(`"forced":false`, `"commits":{}`), true, false, false, false},
		{"a commit is no object", push(`"forced":false`, `"commits":[1]`), true, false, false, false},
		{"a path list is missing", push(`"forced":false`, `"commits":[{"added":[],"modified":["a"]}]`), true, false, false, false},
		{"a path is no string", push(`"forced":false`, `"commits":[{"added":[1],"modified":[],"removed":[]}]`), true, false, false, false},
		{"distinct_size above the list", push(`"forced":false`, `"distinct_size":2`, commits("a")), true, false, false, false},
		{"distinct_size is no number", push(`"forced":false`, `"distinct_size":"1"`, commits("a")), true, false, false, false},
		{"distinct_size equals the list", push(`"forced":false`, `"distinct_size":1`, commits("a")), true, false, true, false},
		{"a deletion", object(`"ref":"refs/heads/main"`, `"deleted":true`), false, true, false, false},
		{"a tag", object(`"ref":"refs/tags/v1"`, `"deleted":false`), false, true, false, false},
	} {
		t.Run("push: "+tt.name, func(t *testing.T) {
			t.Parallel()
			e, err := decode(t, "push", tt.body)
			if err != nil {
				t.Fatal(err)
			}
			got := *e.Push
			if e.Mapped != tt.mapped || got.Forced != tt.forced || got.CommitsComplete != tt.complete || got.TouchesPolicy != tt.policy {
				t.Errorf("got mapped %v, %+v", e.Mapped, got)
			}
			if tt.mapped && (!e.OrgPolicy || got.Branch != "main") {
				t.Errorf("got org policy %v, branch %q", e.OrgPolicy, got.Branch)
			}
		})
	}
	t.Run("a long list of commits without a count may be cut", func(t *testing.T) {
		t.Parallel()
		one := `{"added":[],"modified":[],"removed":[]}`
		list := strings.Repeat(one+",", oldCommitCap-1) + one
		e, err := decode(t, "push", push(`"forced":false`, `"commits":[`+list+`]`))
		if err != nil || e.Push.CommitsComplete || e.Push.Commits != oldCommitCap {
			t.Errorf("got %+v, %v", e.Push, err)
		}
	})
	repoEvent := func(action string, parts ...string) string {
		return object(append([]string{`"action":"` + action + `"`, instJSON}, parts...)...)
	}
	for _, tt := range []struct {
		name, event, body string
		want              func(Event) bool
	}{
		{"renamed to the policy repository's name", "repository", repoEvent("renamed", orgJSON, `"changes":{"repository":{"name":{"from":"Old"}}}`),
			func(e Event) bool { return e.OrgPolicy && e.PreviousName == "acme/old" }},
		{"RG-087 the policy repository renamed away, whatever its case", "repository", repoEvent("renamed", repoJSON, `"changes":{"repository":{"name":{"from":".GITHUB"}}}`),
			func(e Event) bool { return e.OrgPolicy && e.PreviousName == "acme/.github" }},
		{"transferred from an organization", "repository", repoEvent("transferred", repoJSON, `"changes":{"owner":{"from":{"organization":{"login":"Octo-Org"}}}}`),
			func(e Event) bool { return e.PreviousName == "octo-org/shop" && e.PreviousAccount == "octo-org" }},
		{"transferred from a user", "repository", repoEvent("transferred", repoJSON, `"changes":{"owner":{"from":{"user":{"login":"Alice"}}}}`),
			func(e Event) bool { return e.PreviousName == "alice/shop" }},
		{"default branch changed", "repository", repoEvent("edited", repoJSON, `"changes":{"default_branch":{"from":"master"}}`),
			func(e Event) bool { return e.Mapped && e.DefaultBranchChanged }},
		{"another edit", "repository", `{"action":"edited","changes":{"description":{"from":"x"}}}`, func(e Event) bool { return !e.Mapped }},
		{"archived", "repository", `{"action":"archived"}`, func(e Event) bool { return !e.Mapped }},
		{"organization renamed", "organization", repoEvent("renamed", `"organization":{"login":"New"}`, `"changes":{"login":{"from":"Old"}}`),
			func(e Event) bool { return e.AccountLogin == "new" && e.PreviousAccount == "old" }},
		{"membership", "membership", repoEvent("removed", `"team":{"id":4,"slug":"core"}`, `"organization":{"login":"Acme"}`),
			func(e Event) bool { return e.Mapped && e.Team.Slug == "core" && e.Repository.ID == 0 }},
		{"team_add", "team_add", object(instJSON, repoJSON, `"team":{"id":4,"slug":"core"}`), func(e Event) bool { return e.Mapped && e.Repository.ID == 101 }},
		{"installation", "installation", `{"action":"created","installation":{"id":11,"account":{"login":"Acme"}},"repositories":[{"id":1,"full_name":"Acme/A"}]}`,
			func(e Event) bool { return e.Mapped && e.AccountLogin == "acme" && e.Added[0].FullName == "acme/a" }},
		{"installation deleted", "installation", `{"action":"deleted"}`, func(e Event) bool { return !e.Mapped }},
		{"installation target renamed", "installation_target", repoEvent("renamed", `"account":{"login":"New"}`, `"changes":{"login":{"from":"Old"}}`),
			func(e Event) bool { return e.Mapped && e.AccountLogin == "new" && e.PreviousAccount == "old" }},
		{"added", "installation_repositories", repoEvent("added", `"repositories_added":[{"id":1,"full_name":"Acme/A"}]`), func(e Event) bool { return e.Added[0].ID == 1 && e.Removed == nil }},
		{"removed: ordinary", "installation_repositories", repoEvent("removed", `"repositories_removed":[{"id":1,"full_name":"Acme/A"}]`),
			func(e Event) bool { return e.Removed.WellFormed && !e.OrgPolicy && e.Removed.Names[0] == "acme/a" }},
		{"removed: the policy repository", "installation_repositories", repoEvent("removed", `"repositories_removed":[{"id":1,"full_name":"Acme/A"},{"id":2,"full_name":"Acme/.github"}]`),
			func(e Event) bool { return e.Removed.WellFormed && e.OrgPolicy }},
		{"removed: missing", "installation_repositories", repoEvent("removed"), func(e Event) bool { return !e.Removed.WellFormed }},
		{"removed: empty", "installation_repositories", repoEvent("removed", `"repositories_removed":[]`), func(e Event) bool { return !e.Removed.WellFormed }},
		{"removed: one malformed", "installation_repositories", repoEvent("removed", `"repositories_removed":[{"id":1,"full_name":"Acme/A"},{"id":true,"full_name":"Acme/B"}]`),
			func(e Event) bool { return !e.Removed.WellFormed && len(e.Removed.Names) == 1 }},
	} {
		t.Run(tt.event+": "+tt.name, func(t *testing.T) {
			t.Parallel()
			e, err := decode(t, tt.event, tt.body)
			if err != nil || !tt.want(e) {
				t.Errorf("got %+v, %v", e, err)
			}
		})
	}
}

// TestRealPayloads decodes what GitHub really sent. COUNTERSIGN_TEST_WEBHOOK_EXAMPLES names a folder into which the npm package
// @octokit/webhooks-examples was unpacked; the payloads are not ours to keep.
func TestRealPayloads(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("COUNTERSIGN_TEST_WEBHOOK_EXAMPLES")
	if folder == "" {
		t.Skip("COUNTERSIGN_TEST_WEBHOOK_EXAMPLES is not set; see docs/github.md")
	}
	text, err := os.ReadFile(filepath.Join(folder, "api.github.com", "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Name     string
		Examples []json.RawMessage
	}
	if err := json.Unmarshal(text, &events); err != nil {
		t.Fatal(err)
	}
	decoded, refused := 0, 0
	for _, event := range events {
		for i, body := range event.Examples {
			e, err := decode(t, event.Name, string(body))
			var field *FieldError
			switch {
			case err == nil:
				decoded++
			case errors.As(err, &field) && strings.HasPrefix(field.Field, "installation"):
				refused++ // a repository hook's payload: no App installation
			default:
				t.Errorf("%s[%d]: %v", event.Name, i, err)
			}
			_ = e
		}
	}
	t.Logf("%d decoded, %d without an installation", decoded, refused)
	if decoded == 0 || refused == 0 {
		t.Error("the package holds payloads with and without an installation")
	}
}

// TestShownTexts: what is only shown is bounded, storable, and never a reason to refuse.
func TestShownTexts(t *testing.T) {
	t.Parallel()
	body := func(title, user string) string {
		return `{"action":"opened","number":7,"installation":{"id":1},"repository":{"id":5,"full_name":"acme/widgets"},"pull_request":{"number":7,"state":"open","title":` +
			title + `,"user":` + user + `,"updated_at":"2024-05-01T10:00:00Z","head":{"sha":"` + strings.Repeat("a", 40) + `"},"base":{"ref":"main"}}}`
	}
	for _, tt := range []struct{ name, title, user, wantTitle, wantAuthor string }{
		{"as they are", `"Change widgets"`, `{"login":"alice"}`, "Change widgets", "alice"},
		{"a title of 300 characters is cut at 256", `"` + strings.Repeat("é", 300) + `"`, `{"login":"alice"}`, strings.Repeat("é", 256), "alice"},
		{"a NUL, which no database keeps", `"a\u0000b"`, `{"login":"alice"}`, "a\uFFFDb", "alice"},
		{"a deleted account", `"t"`, `null`, "t", ""},
		{"neither is a string", `7`, `{"login":[]}`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e, err := decode(t, "pull_request", body(tt.title, tt.user))
			if err != nil {
				t.Fatal(err)
			}
			if e.Pull.Title != tt.wantTitle || e.Pull.Author != tt.wantAuthor {
				t.Errorf("title %q, author %q", e.Pull.Title, e.Pull.Author)
			}
		})
	}
}

func FuzzDecodeEvent(f *testing.F) {
	for name := range decoders {
		f.Add(name, []byte(object(`"action":"opened"`, instJSON, repoJSON, pullJSON())))
		f.Add(name, []byte(`{"action":"removed","repositories_removed":[{}],"installation":{"id":1}}`))
		f.Add(name, []byte(`{"ref":"refs/heads/x","commits":[{"added":[null]}],"distinct_size":1e9}`))
	}
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		e, err := DecodeEvent(name, body, AppIdentity{ID: testAppID}, ".github", []string{"p"})
		var field *FieldError
		if err != nil && !errors.As(err, &field) {
			t.Fatalf("an error that isn't a FieldError: %v", err)
		}
		if err != nil || !e.Mapped {
			return
		}
		if e.Installation <= 0 {
			t.Fatal("mapped without an installation")
		}
		if e.Pull != nil && (e.Pull.Number <= 0 || !IsSHA(e.Pull.HeadSHA) || e.Pull.State != "open" && e.Pull.State != "closed") {
			t.Fatalf("mapped with %+v", e.Pull)
		}
		if e.Repository.FullName != strings.ToLower(e.Repository.FullName) {
			t.Fatal("a full name that isn't lower case")
		}
	})
}
