package policy_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/countersign/countersign/pkg/policy"
)

// share counts how often a property met a passing and a blocked verdict: a
// property that never sees one of them proves nothing.
type share struct{ approved, blocked int }

func (c *share) see(v policy.Verdict) bool {
	if v.Conclusion.Approved() {
		c.approved++
		return true
	}
	c.blocked++
	return false
}

func (c *share) enough(t *testing.T) {
	t.Helper()
	if c.approved < 5 || c.blocked < 5 {
		t.Errorf("the generator gave %d approved and %d blocked verdicts: too few to prove anything", c.approved, c.blocked)
	}
}

func TestDeterminism(t *testing.T) {
	t.Parallel()
	t.Run("RG-004 the same evidence in any order gives the same bytes", func(t *testing.T) {
		t.Parallel()
		seen := &share{}
		rapid.Check(t, func(t *rapid.T) {
			s, _ := genSnapshot(t)
			shuffled := shuffle(s, rapid.Uint64().Draw(t, "seed"))
			one, two := policy.Evaluate(s), policy.Evaluate(shuffled)
			seen.see(one)
			if !bytes.Equal(one.MarshalCanonical(), two.MarshalCanonical()) {
				t.Fatalf("verdicts differ\n%s\n%s", one.MarshalCanonical(), two.MarshalCanonical())
			}
			if a, b := fmt.Sprint(policy.Render(one, policy.RenderInput{})), fmt.Sprint(policy.Render(two, policy.RenderInput{})); a != b {
				t.Fatalf("checks differ\n%s\n%s", a, b)
			}
			if policy.Digest(s) != policy.Digest(shuffled) {
				t.Fatal("digests differ")
			}
			if a, b := fmt.Sprint(policy.Needs(s)), fmt.Sprint(policy.Needs(shuffled)); a != b {
				t.Fatalf("needs differ\n%s\n%s", a, b)
			}
		})
		seen.enough(t)
	})
	t.Run("RG-004 recorded evidence replays to the same verdict", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			s, _ := genSnapshot(t)
			record := s.MarshalCanonical()
			replayed, err := policy.DecodeSnapshot(record)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(policy.Evaluate(s).MarshalCanonical(), policy.Evaluate(replayed).MarshalCanonical()) {
				t.Fatal("the replayed verdict differs")
			}
			if !bytes.Equal(record, replayed.MarshalCanonical()) {
				t.Fatal("the canonical form is not a fixed point")
			}
		})
	})
	t.Run("RG-246 evaluating changes nothing in the snapshot", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			s, _ := genSnapshot(t)
			s = shuffle(s, 1)
			before := fmt.Sprintf("%+v", s.Pulls)
			policy.Evaluate(s)
			s.MarshalCanonical()
			if fmt.Sprintf("%+v", s.Pulls) != before {
				t.Fatal("the snapshot was changed")
			}
		})
	})
}

// shuffle gives s with every collection in another order and its own memory.
func shuffle(s policy.Snapshot, seed uint64) policy.Snapshot {
	r := rand.New(rand.NewPCG(seed, seed))
	s.Pulls = mixed(r, s.Pulls)
	for i := range s.Pulls {
		p := &s.Pulls[i]
		p.Labels = mixed(r, p.Labels)
		p.Files.Items = mixed(r, p.Files.Items)
		p.Reviews.Items = mixed(r, p.Reviews.Items)
		p.Comments.Items = mixed(r, p.Comments.Items)
		older := map[string]policy.FileList{}
		for sha, l := range p.OlderHeads {
			l.Items = mixed(r, l.Items)
			older[sha] = l
		}
		p.OlderHeads = older
	}
	return s
}

func mixed[T any](r *rand.Rand, list []T) []T {
	list = slices.Clone(list)
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func TestMonotone(t *testing.T) {
	t.Parallel()
	t.Run("RG-328 one approval more never turns approval into refusal", func(t *testing.T) {
		t.Parallel()
		seen := &share{}
		rapid.Check(t, func(t *rapid.T) {
			s, _ := genSnapshot(t)
			if !seen.see(policy.Evaluate(s)) {
				return
			}
			i := rapid.IntRange(0, len(s.Pulls)-1).Draw(t, "pull")
			who := rapid.SampledFrom(append(bots, people...)).Draw(t, "who")
			addReview(&s.Pulls[i], who, "APPROVED", headSHA)
			if v := policy.Evaluate(s); !v.Conclusion.Approved() {
				t.Fatalf("an approval of %s turned it into %v: %s", who, v.Codes, v.NextStep)
			}
		})
		seen.enough(t)
	})
	t.Run("RG-005 RG-006 RG-007 a fact less never turns refusal into approval", func(t *testing.T) {
		t.Parallel()
		seen := &share{}
		rapid.Check(t, func(t *rapid.T) {
			s, _ := genSnapshot(t)
			if rare(t, "broken") {
				s.Pulls[0].ChangedFiles++
			}
			if seen.see(policy.Evaluate(s)) {
				return
			}
			for name, without := range removals(s) {
				if v := policy.Evaluate(without); v.Conclusion.Approved() {
					t.Fatalf("without %s it is approved", name)
				}
			}
		})
		seen.enough(t)
	})
	t.Run("RG-005 without a fact that it rests on, approval is gone or needs nothing", func(t *testing.T) {
		t.Parallel()
		seen := &share{}
		rapid.Check(t, func(t *rapid.T) {
			s, _ := genSnapshot(t)
			if !seen.see(policy.Evaluate(s)) {
				return
			}
			for name, without := range removals(s) {
				v := policy.Evaluate(without)
				if v.Conclusion.Approved() && v.Unsettled {
					t.Fatalf("without %s it is approved and unsettled", name)
				}
				if slices.Contains(always, name) && v.Conclusion.Approved() {
					t.Fatalf("without %s it is still approved", name)
				}
			}
		})
		seen.enough(t)
	})
	t.Run("RG-492 RG-379 whatever narrows the policy never widens the verdict", func(t *testing.T) {
		t.Parallel()
		seen := &share{}
		rapid.Check(t, func(t *rapid.T) {
			s, r := genSnapshot(t)
			if seen.see(policy.Evaluate(s)) {
				return
			}
			name, narrowed := narrow(t, r)
			b := s.Bases[baseSHA]
			b.Policy.Text = narrowed.toml()
			s.Bases[baseSHA] = b
			s.OrganizationPolicy.Policy.Text = narrowed.orgTOML()
			if v := policy.Evaluate(s); v.Conclusion.Approved() {
				t.Fatalf("%s turned refusal into approval\n%s\n%s", name, r.toml(), narrowed.toml())
			}
		})
		seen.enough(t)
	})
	t.Run("RG-006 time alone never turns refusal into approval", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			s, _ := genSnapshot(t)
			v := policy.Evaluate(s)
			later := s
			later.Now = s.Now.Add(time.Duration(rapid.IntRange(1, 1000).Draw(t, "minutes")) * time.Minute)
			w := policy.Evaluate(later)
			if !v.Conclusion.Approved() && w.Conclusion.Approved() {
				t.Fatal("waiting approved it")
			}
			if v.Conclusion != w.Conclusion && (v.NextDue == nil || v.NextDue.After(later.Now)) {
				t.Fatalf("the verdict changed before it was due at %v", v.NextDue)
			}
		})
	})
}

// always are facts without which nothing is ever approved.
var always = []string{"pulls", "files", "reviews", "codeowners", "codeowners errors", "policy", "fallback policy", "organisation repository", "organisation policy", "base"}

// removals gives s without each of its facts in turn.
func removals(s policy.Snapshot) map[string]policy.Snapshot {
	out := map[string]policy.Snapshot{}
	add := func(name string, mod func(*policy.Snapshot)) {
		c := deep(s)
		mod(&c)
		out[name] = c
	}
	onPull := func(name string, mod func(*policy.PullRequest)) {
		add(name, func(c *policy.Snapshot) { mod(&c.Pulls[0]) })
	}
	onBase := func(name string, mod func(*policy.Base)) {
		add(name, func(c *policy.Snapshot) { b := c.Bases[baseSHA]; mod(&b); c.Bases[baseSHA] = b })
	}
	add("pulls", func(c *policy.Snapshot) { c.PullsState = policy.FactUnknown })
	add("base", func(c *policy.Snapshot) { delete(c.Bases, baseSHA) })
	onPull("files", func(p *policy.PullRequest) { p.Files.State = policy.FactUnknown })
	onPull("content", func(p *policy.PullRequest) { p.Files.ContentState = policy.FactUnknown })
	onPull("reviews", func(p *policy.PullRequest) { p.Reviews = policy.ReviewList{State: policy.FactUnknown} })
	onPull("comments", func(p *policy.PullRequest) { p.Comments = policy.CommentList{State: policy.FactUnknown} })
	onPull("pusher", func(p *policy.PullRequest) { p.LastPusher = policy.ActorFact{State: policy.FactUnknown} })
	onPull("base change", func(p *policy.PullRequest) { p.BaseChange = policy.BaseChangeFact{State: policy.FactUnknown} })
	onPull("older head", func(p *policy.PullRequest) { delete(p.OlderHeads, oldSHA) })
	onBase("codeowners", func(b *policy.Base) { b.Codeowners = policy.FileFact{State: policy.FactUnknown} })
	onBase("codeowners errors", func(b *policy.Base) { b.CodeownersErrors.State = policy.FactUnknown })
	onBase("policy", func(b *policy.Base) { b.Policy = policy.FileFact{State: policy.FactUnknown} })
	onBase("fallback policy", func(b *policy.Base) { b.FallbackPolicy.State = policy.FactUnknown })
	add("organisation repository", func(c *policy.Snapshot) { c.OrganizationPolicy.Repository = policy.FactUnknown })
	add("organisation policy", func(c *policy.Snapshot) { c.OrganizationPolicy.Policy.State = policy.FactUnknown })
	for _, key := range genTeams {
		add("team "+key, func(c *policy.Snapshot) { c.Teams[key] = policy.TeamFact{State: policy.FactUnknown} })
		add("team entry "+key, func(c *policy.Snapshot) { delete(c.Teams, key) })
		for _, login := range people {
			add("membership "+key+" "+login, func(c *policy.Snapshot) { delete(c.Memberships[key], login) })
		}
	}
	for _, login := range people {
		add("user "+login, func(c *policy.Snapshot) { c.Users[login] = policy.UserFact{State: policy.FactUnknown} })
	}
	for _, login := range bots {
		add("app "+login, func(c *policy.Snapshot) { delete(c.Apps, login) })
	}
	return out
}

// deep copies a snapshot through its own JSON form.
func deep(s policy.Snapshot) policy.Snapshot {
	c, err := policy.DecodeSnapshot(s.MarshalCanonical())
	if err != nil {
		panic(err)
	}
	return c
}

// narrow takes something away from a policy, or asks for something more.
func narrow(t *rapid.T, r rules) (string, rules) {
	r.delegations, r.requirements, r.guardrails = slices.Clone(r.delegations), slices.Clone(r.requirements), slices.Clone(r.guardrails)
	i := func(name string, n int) int { return rapid.IntRange(0, n-1).Draw(t, name) }
	switch rapid.IntRange(0, 12).Draw(t, "narrowing") {
	case 0:
		r.requirements = append(r.requirements, genRequirement(t))
		return "a requirement more", r
	case 1:
		r.guardrails = append(r.guardrails, "/src/**")
		return "a guardrail more", r
	case 2:
		r.allowAuthor, r.excludeAuthor = false, true
		return "excluding the author", r
	case 3:
		r.excludePusher = true
		return "excluding the last pusher", r
	case 4:
		r.contentStable = false
		return "no content-stable approvals", r
	case 5:
		r.breakGlass = false
		return "no break-glass", r
	case 6:
		r.allowAuthor = false
		return "no author as owner", r
	}
	if len(r.delegations) > 0 && maybe(t, "narrow a delegation") {
		n := i("delegation", len(r.delegations))
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 0:
			r.delegations = slices.Delete(r.delegations, n, n+1)
			return "a delegation less", r
		case 1:
			r.delegations[n].required = []string{"auto"}
			return "a required label", r
		default:
			r.delegations[n].barred = []string{"hold"}
			return "a forbidden label", r
		}
	}
	if len(r.requirements) > 0 {
		q := &r.requirements[i("requirement", len(r.requirements))]
		switch rapid.IntRange(0, 4).Draw(t, "how") {
		case 0:
			q.count++
		case 1:
			q.humans++
		case 2:
			q.exclude = nil
		case 3:
			q.excludeAuthor, q.excludePusher = true, true
		default:
			for _, o := range genOwners {
				if !slices.Contains(q.allOf, o) && !slices.Contains(q.optional, o) {
					q.allOf = append(slices.Clone(q.allOf), o)
					break
				}
			}
		}
		return "a stricter requirement", r
	}
	return "nothing", r
}

func TestRenamesAndRules(t *testing.T) {
	t.Parallel()
	t.Run("RG-494 a rename needs what its old and its new path need", func(t *testing.T) {
		t.Parallel()
		seen := &share{}
		rapid.Check(t, func(t *rapid.T) {
			s, _ := genSnapshot(t)
			s.Pulls = s.Pulls[:1]
			from, to := rapid.SampledFrom(genPaths).Draw(t, "from"), "new/"+rapid.SampledFrom(genPaths).Draw(t, "to")
			rename(from, to)(&s)
			seen.see(policy.Evaluate(s))
			both := deep(s)
			both.Pulls[0].Files.Items = []policy.ChangedFile{
				{Path: from, Status: "removed", Before: blob("x")}, {Path: to, Status: "added", After: blob("x")},
			}
			both.Pulls[0].ChangedFiles = 2
			if a, b := policy.Evaluate(s).Conclusion, policy.Evaluate(both).Conclusion; a != b {
				t.Fatalf("renamed %s, removed and added %s", a, b)
			}
		})
		seen.enough(t)
	})
	t.Run("RG-493 the last literal rule decides", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			s, _ := genSnapshot(t)
			path := rapid.SampledFrom(genPaths).Draw(t, "path")
			b := s.Bases[baseSHA]
			b.Codeowners.Text += "/" + path + " @frank\n"
			s.Bases[baseSHA] = b
			s.Pulls = s.Pulls[:1]
			setFiles(&s.Pulls[0], path)
			v := policy.Evaluate(s)
			if g := v.Pulls[0].Groups[0]; g.Kind != policy.GroupOwners || !slices.Equal(g.Owners, []string{"@frank"}) {
				t.Fatalf("owners %v", g.Owners)
			}
		})
	})
}

func TestMessages(t *testing.T) {
	t.Parallel()
	t.Run("RG-496 RG-497 RG-293 RG-298 whatever a path is, messages are short and the check is inert", func(t *testing.T) {
		t.Parallel()
		path := rapid.OneOf(rapid.SampledFrom(crafted), rapid.String(), rapid.StringMatching(`[a-z*_<>&#@.\-/ ]{1,40}`), rapid.StringN(200, 3000, -1))
		rapid.Check(t, func(t *rapid.T) {
			s, _ := genSnapshot(t)
			evil := rapid.SliceOfN(path, 1, 4).Draw(t, "paths")
			setFiles(&s.Pulls[0], evil...)
			s.Pulls[0].BaseRef = evil[0]
			s.Pulls[0].Labels = evil
			v := policy.Evaluate(s)
			for _, p := range v.Pulls {
				checkMessages(t, p.Findings, p.NextStep)
				for _, g := range p.Groups {
					checkMessages(t, nil, g.Missing, g.NextStep)
				}
			}
			checkMessages(t, v.Findings, v.NextStep)
			checkOutput(t, policy.Render(v, policy.RenderInput{}))
		})
	})
}

func checkMessages(t rapid.TB, findings []policy.Finding, messages ...string) {
	for _, f := range findings {
		messages = append(messages, f.Message, f.Subject)
		if f.Message == "" || f.Code == "" || f.Severity == "" {
			t.Fatalf("an empty finding %+v", f)
		}
	}
	for _, m := range messages {
		if len(m) > policy.MaxMessageChars || !utf8.ValidString(m) {
			t.Fatalf("RG-496: a message of %d bytes", len(m))
		}
	}
}
