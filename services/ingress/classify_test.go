package ingress

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// classify decodes and classifies a payload the way the server does.
func classify(t *testing.T, event string, payload obj) Work {
	t.Helper()
	cfg := testConfig()
	e, err := ghclient.DecodeEvent(event, encode(t, payload), ghclient.AppIdentity{ID: cfg.AppID}, cfg.OrgRepository, cfg.PolicyPaths)
	if err != nil {
		t.Fatalf("decode %s: %v", event, err)
	}
	return Classify(e)
}

// wantDirect is the work on pull request 7 of the target at headA, of a payload that says all there is to say.
func wantDirect(reason string) Work {
	return Work{Direct: &store.DirectWork{
		Installation: installedAs, AccountLogin: "acme", Repository: repoID, FullName: "acme/widgets", Number: 7, Head: headA, BaseRef: "main",
		State: "open", Watermark: store.Watermark{Head: headA, UpdatedAt: time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC)}, Reason: reason,
		Title: "Change widgets", AuthorLogin: "alice",
	}}
}

func wantAuthority(scope store.Scope, reason string, change func(*store.AuthorityWork)) Work {
	w := &store.AuthorityWork{Installation: installedAs, AccountLogin: "acme", Scope: scope, Reason: reason}
	if scope != store.ScopeInstallation {
		w.Repository, w.FullName = repoID, "acme/widgets"
	}
	if change != nil {
		change(w)
	}
	return Work{Authority: w}
}

func compare(t *testing.T, got, want Work) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("work (-want +got):\n%s", diff)
	}
}

func TestClassifyDirect(t *testing.T) {
	t.Parallel()
	for _, action := range []string{
		"opened", "reopened", "synchronize", "ready_for_review", "converted_to_draft", "edited", "labeled", "unlabeled",
		"review_requested", "review_request_removed",
	} {
		t.Run("RG-050 pull_request."+action+" evaluates that pull request", func(t *testing.T) {
			t.Parallel()
			compare(t, classify(t, "pull_request", pullRequest(action, 7, headA, "open")), wantDirect("pull_request."+action))
		})
		t.Run("RG-051 pull_request."+action+" on a closed pull request is ignored", func(t *testing.T) {
			t.Parallel()
			compare(t, classify(t, "pull_request", pullRequest(action, 7, headA, "closed")), Work{Why: WhyClosed})
		})
	}
	t.Run("RG-051 pull_request.closed is recorded", func(t *testing.T) {
		t.Parallel()
		want := wantDirect("pull_request.closed")
		want.Direct.State = "closed"
		compare(t, classify(t, "pull_request", pullRequest("closed", 7, headA, "closed")), want)
		want.Direct.Merged = true
		compare(t, classify(t, "pull_request", with(pullRequest("closed", 7, headA, "closed"), "pull_request.merged", true)), want)
	})
	t.Run("a payload that is open and merged is not merged", func(t *testing.T) {
		t.Parallel()
		compare(t, classify(t, "pull_request", with(pullRequest("edited", 7, headA, "open"), "pull_request.merged", true)), wantDirect("pull_request.edited"))
	})
	for _, action := range []string{"submitted", "edited", "dismissed"} {
		t.Run("RG-052 pull_request_review."+action+" evaluates an open pull request and ignores a closed one", func(t *testing.T) {
			t.Parallel()
			want := wantDirect("pull_request_review." + action)
			want.Direct.Watermark.ReviewID, want.Direct.Watermark.ReviewState = 900, "APPROVED"
			compare(t, classify(t, "pull_request_review", review(action, 7, headA, "open")), want)
			compare(t, classify(t, "pull_request_review", review(action, 7, headA, "closed")), Work{Why: WhyClosed})
		})
	}
	for _, action := range []string{"assigned", "unassigned", "locked", "unlocked", "auto_merge_enabled", "enqueued", "milestoned", ""} {
		t.Run("pull_request."+action+" creates no work", func(t *testing.T) {
			t.Parallel()
			compare(t, classify(t, "pull_request", pullRequest(action, 7, headA, "open")), Work{Why: WhyUnmapped})
		})
	}
	t.Run("a push into a pull request also names the head that was left", func(t *testing.T) {
		t.Parallel()
		want := wantDirect("pull_request.synchronize")
		want.Direct.Before = headB
		compare(t, classify(t, "pull_request", with(pullRequest("synchronize", 7, headA, "open"), "before", headB)), want)
		for _, before := range []string{headA, "0000000000000000000000000000000000000000", "no commit"} {
			compare(t, classify(t, "pull_request", with(pullRequest("synchronize", 7, headA, "open"), "before", before)), wantDirect("pull_request.synchronize"))
		}
	})
}

func TestClassifyCheckRun(t *testing.T) {
	t.Parallel()
	evaluate := func(reason string) Work {
		w := wantDirect(reason)
		w.Direct.BaseRef, w.Direct.Watermark.UpdatedAt, w.Direct.Title, w.Direct.AuthorLogin = "", time.Time{}, "", ""
		return w
	}
	t.Run("RG-053 a rerequest evaluates its one pull request at the run's head", func(t *testing.T) {
		t.Parallel()
		compare(t, classify(t, "check_run", checkRun("rerequested", appID, 7)), evaluate("check_run.rerequested"))
	})
	t.Run("RG-054 the re-evaluate action is a rerequest and another identifier is not", func(t *testing.T) {
		t.Parallel()
		action := func(id string) obj {
			return with(checkRun("requested_action", appID, 7), "requested_action", obj{"identifier": id})
		}
		compare(t, classify(t, "check_run", action("re-evaluate")), evaluate("check_run.requested_action"))
		for _, other := range []string{"fix", "Re-Evaluate", "re-evaluate "} {
			compare(t, classify(t, "check_run", action(other)), Work{Why: WhyOtherAction})
		}
	})
	for _, action := range []string{"created", "completed"} {
		t.Run("RG-037 the App's own check_run."+action+" creates no work", func(t *testing.T) {
			t.Parallel()
			compare(t, classify(t, "check_run", checkRun(action, appID, 7)), Work{Why: WhyUnmapped})
		})
	}
	t.Run("RG-038 a rerequest of another App's run creates no work", func(t *testing.T) {
		t.Parallel()
		compare(t, classify(t, "check_run", checkRun("rerequested", appID+1, 7)), Work{Why: WhyUnmapped})
	})
	t.Run("a rerequest of no pull request or of two is about the commit, as far as it is known", func(t *testing.T) {
		t.Parallel()
		for _, p := range []obj{checkRun("rerequested", appID), checkRun("rerequested", appID, 7, 8)} {
			w := classify(t, "check_run", p)
			if w.Direct != nil || w.Known == nil || w.Known.Head != headA || w.Known.Reason != "check_run.rerequested" {
				t.Errorf("%+v", w)
			}
		}
	})
}

func TestClassifyOrganizationPolicyRepository(t *testing.T) {
	t.Parallel()
	t.Run("RG-055 RG-087 its own pull requests create no work, however its name is spelled", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"acme/.github", "Acme/.GitHub", "ACME/.GITHUB"} {
			at := func(p obj) obj { return with(p, "repository", repository(orgRepoID, name)) }
			compare(t, classify(t, "pull_request", at(pullRequest("opened", 7, headA, "open"))), Work{Why: WhyOrgPolicy})
			compare(t, classify(t, "pull_request", at(pullRequest("closed", 7, headA, "closed"))), Work{Why: WhyOrgPolicy})
			compare(t, classify(t, "pull_request_review", at(review("submitted", 7, headA, "open"))), Work{Why: WhyOrgPolicy})
			compare(t, classify(t, "check_run", at(checkRun("rerequested", appID, 7))), Work{Why: WhyOrgPolicy})
		}
	})
	t.Run("RG-087 a repository whose name only contains it is a target", func(t *testing.T) {
		t.Parallel()
		want := wantDirect("pull_request.opened")
		want.Direct.Repository, want.Direct.FullName = 600, "acme/my.github"
		compare(t, classify(t, "pull_request", with(pullRequest("opened", 7, headA, "open"), "repository", repository(600, "acme/my.github"))), want)
	})
}

func TestClassifyPush(t *testing.T) {
	t.Parallel()
	t.Run("RG-070 a push to a branch is work for that branch", func(t *testing.T) {
		t.Parallel()
		for _, branch := range []string{"main", "release/1.x"} {
			compare(t, classify(t, "push", push(target(), "refs/heads/"+branch)), wantAuthority(store.ScopeBase, "push", func(w *store.AuthorityWork) { w.BaseRef, w.Before, w.After = branch, headA, headB }))
		}
	})
	t.Run("RG-071 a tag and a deletion are no work", func(t *testing.T) {
		t.Parallel()
		compare(t, classify(t, "push", push(target(), "refs/tags/v1")), Work{Why: WhyUnmapped})
		compare(t, classify(t, "push", with(push(target(), "refs/heads/main"), "deleted", true)), Work{Why: WhyUnmapped})
		compare(t, classify(t, "push", with(push(orgPolicy(), "refs/heads/main"), "deleted", true)), Work{Why: WhyUnmapped})
	})
	whole := wantAuthority(store.ScopeInstallation, "push", nil)
	for _, path := range testConfig().PolicyPaths {
		for _, kind := range []string{"added", "modified", "removed"} {
			t.Run("RG-072 "+path+" "+kind+" on the default branch is installation-wide", func(t *testing.T) {
				t.Parallel()
				commit := obj{"added": []string{}, "modified": []string{}, "removed": []string{}}
				commit[kind] = []string{"README.md", path}
				compare(t, classify(t, "push", with(push(orgPolicy(), "refs/heads/main"), "commits", []obj{commit})), whole)
			})
		}
	}
	t.Run("RG-073 a complete, unforced push beside the policy is no work", func(t *testing.T) {
		t.Parallel()
		compare(t, classify(t, "push", push(orgPolicy(), "refs/heads/main")), Work{Why: WhyNoPolicy})
		compare(t, classify(t, "push", with(push(orgPolicy(), "refs/heads/main"), "distinct_size", 1)), Work{Why: WhyNoPolicy})
	})
	unsure := map[string]func(obj) obj{
		"forced":                 func(p obj) obj { return with(p, "forced", true) },
		"no commits list":        func(p obj) obj { return with(p, "commits", nil) },
		"commits is no list":     func(p obj) obj { return with(p, "commits", "x") },
		"a commit is no object":  func(p obj) obj { return with(p, "commits", []any{1}) },
		"a commit without paths": func(p obj) obj { return with(p, "commits", []any{obj{"added": []string{}}}) },
		"a path is no text": func(p obj) obj {
			return with(p, "commits", []any{obj{"added": []any{1}, "modified": []any{}, "removed": []any{}}})
		},
		"distinct_size above listed": func(p obj) obj { return with(p, "distinct_size", 2) },
		"distinct_size is no number": func(p obj) obj { return with(p, "distinct_size", "1") },
	}
	for name, change := range unsure {
		t.Run("RG-074 "+name+" is installation-wide", func(t *testing.T) {
			t.Parallel()
			compare(t, classify(t, "push", change(push(orgPolicy(), "refs/heads/main"))), whole)
		})
	}
	t.Run("RG-075 another branch of the policy repository is no work", func(t *testing.T) {
		t.Parallel()
		compare(t, classify(t, "push", with(push(orgPolicy(), "refs/heads/topic"), "forced", true)), Work{Why: WhyOtherBranch})
	})
	t.Run("RG-074 a policy repository whose default branch is not named is taken to be on it", func(t *testing.T) {
		t.Parallel()
		compare(t, classify(t, "push", with(with(push(orgPolicy(), "refs/heads/topic"), "forced", true), "repository.default_branch", nil)), whole)
	})
}

func TestClassifyAuthority(t *testing.T) {
	t.Parallel()
	for event, actions := range map[string][]string{
		"label": {"created", "edited", "deleted", "anything"}, "member": {"added", "edited", "removed"}, "team_add": {""},
	} {
		for _, action := range actions {
			t.Run("RG-076 "+event+"."+action+" is repository work", func(t *testing.T) {
				t.Parallel()
				reason := event
				if action != "" {
					reason += "." + action
				}
				compare(t, classify(t, event, base(action, target())), wantAuthority(store.ScopeRepository, reason, nil))
			})
		}
	}
	withOrg := func(action string) obj { return with(base(action, nil), "organization", obj{"login": "Acme"}) }
	for event, actions := range map[string][]string{
		"membership":   {"added", "removed"},
		"team":         {"created", "deleted", "edited", "added_to_repository", "removed_from_repository"},
		"organization": {"renamed", "member_added", "member_removed", "member_invited", "deleted"},
	} {
		for _, action := range actions {
			t.Run("RG-077 "+event+"."+action+" is installation work", func(t *testing.T) {
				t.Parallel()
				compare(t, classify(t, event, withOrg(action)), wantAuthority(store.ScopeInstallation, event+"."+action, nil))
			})
		}
	}
	t.Run("RG-081 RG-082 RG-086 the installation's own events", func(t *testing.T) {
		t.Parallel()
		account := func(action string) obj {
			return with(base(action, nil), "installation.account", obj{"login": "Acme", "id": 9})
		}
		for event, actions := range map[string][]string{
			"installation": {"created", "unsuspend", "new_permissions_accepted"}, "installation_repositories": {"added"}, "installation_target": {"renamed"},
		} {
			for _, action := range actions {
				compare(t, classify(t, event, account(action)), wantAuthority(store.ScopeInstallation, event+"."+action, nil))
			}
		}
		for event, actions := range map[string][]string{"installation": {"deleted", "suspend"}, "installation_target": {"created"}, "installation_repositories": {"other"}} {
			for _, action := range actions {
				compare(t, classify(t, event, account(action)), Work{Why: WhyUnmapped})
			}
		}
	})
}

func TestClassifyRepository(t *testing.T) {
	t.Parallel()
	renamed := func(repo obj, from string) obj {
		return with(base("renamed", repo), "changes", obj{"repository": obj{"name": obj{"from": from}}})
	}
	transferred := func(repo obj) obj {
		return with(base("transferred", repo), "changes", obj{"owner": obj{"from": obj{"organization": obj{"login": "octo-org"}}}})
	}
	edited := func(repo obj) obj {
		return with(base("edited", repo), "changes", obj{"default_branch": obj{"from": "master"}})
	}
	installation := func(action string) Work { return wantAuthority(store.ScopeInstallation, "repository."+action, nil) }
	for _, row := range []struct {
		name    string
		payload obj
		want    Work
	}{
		{"RG-078 the policy repository deleted", base("deleted", orgPolicy()), installation("deleted")},
		{"RG-078 the policy repository renamed away", renamed(repository(orgRepoID, "acme/old"), ".GitHub"), installation("renamed")},
		{"RG-078 a repository renamed to it", renamed(orgPolicy(), "old"), installation("renamed")},
		{"RG-078 the policy repository transferred", transferred(orgPolicy()), installation("transferred")},
		{"RG-078 the policy repository's default branch", edited(orgPolicy()), installation("edited")},
		{"RG-079 a target renamed", renamed(target(), "gadgets"), installation("renamed")},
		{"RG-079 a target transferred", transferred(target()), installation("transferred")},
		{"RG-079 a target unarchived", base("unarchived", target()), installation("unarchived")},
		{"RG-080 a target's default branch", edited(target()), Work{Why: WhyRepository}},
		{"RG-080 a target deleted", base("deleted", target()), Work{Why: WhyRepository}},
		{"RG-080 a target's description", with(base("edited", target()), "changes", obj{"description": obj{"from": "x"}}), Work{Why: WhyUnmapped}},
		{"RG-080 the policy repository's description", with(base("edited", orgPolicy()), "changes", obj{"description": obj{"from": "x"}}), Work{Why: WhyUnmapped}},
		{"RG-080 archived", base("archived", target()), Work{Why: WhyUnmapped}},
		{"RG-080 publicized", base("publicized", target()), Work{Why: WhyUnmapped}},
		{"RG-080 privatized", base("privatized", orgPolicy()), Work{Why: WhyUnmapped}},
		{"RG-080 created", base("created", target()), Work{Why: WhyUnmapped}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			compare(t, classify(t, "repository", row.payload), row.want)
		})
	}
}

func TestClassifyRemovedRepositories(t *testing.T) {
	t.Parallel()
	whole := wantAuthority(store.ScopeInstallation, "installation_repositories.removed", func(w *store.AuthorityWork) { w.AccountLogin = "" })
	ordinary := obj{"id": repoID, "full_name": "acme/widgets"}
	for _, row := range []struct {
		name  string
		repos any
		want  Work
	}{
		{"RG-083 the policy repository among others", []any{ordinary, obj{"id": orgRepoID, "full_name": "Acme/.GitHub"}}, whole},
		{"RG-084 missing", nil, whole},
		{"RG-084 empty", []any{}, whole},
		{"RG-084 no list", "acme/widgets", whole},
		{"RG-084 one element is null", []any{ordinary, nil}, whole},
		{"RG-084 one element has no id", []any{ordinary, obj{"full_name": "acme/other"}}, whole},
		{"RG-084 one element's name has two slashes", []any{ordinary, obj{"id": 3, "full_name": "acme/other/x"}}, whole},
		{"RG-085 only ordinary targets", []any{ordinary, obj{"id": 600, "full_name": "acme/gadgets"}}, Work{Why: WhyRemoved}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			compare(t, classify(t, "installation_repositories", removed(row.repos)), row.want)
		})
	}
}

func TestClassifyWhatIsNotMapped(t *testing.T) {
	t.Parallel()
	t.Run("other events create no work", func(t *testing.T) {
		t.Parallel()
		for _, event := range []string{"ping", "issues", "issue_comment", "star", "deployment", "pull_request_review_comment", "Pull_Request", "x"} {
			compare(t, classify(t, event, pullRequest("opened", 7, headA, "open")), Work{Why: WhyUnmapped})
		}
	})
}
