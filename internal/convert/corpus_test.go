package convert_test

import (
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/convert"
)

// Policies in the style of those that are public, made up anew: which features they use and how they are combined is what counts.
var botCorpus = []string{
	// A team for everything, and managers for the bot's own files.
	"approval_defaults: {options: {allow_non_author_contributor: true}}\npolicy:\n  approval:\n  - and:\n    - sensitive\n    - or: [managers, engineers]\n  disapproval: {requires: {teams: [acme/managers]}}\napproval_rules:\n- {name: sensitive, requires: {count: 1, teams: [acme/managers]}, if: {changed_files: {paths: ['^\\.bulldozer\\.yml$', '^\\.policy\\.yml$']}}}\n- {name: managers, requires: {count: 1, teams: [acme/managers]}}\n- {name: engineers, requires: {count: 1, teams: [acme/client]}}\n",
	// One rule on one branch.
	"policy: {approval: [reviewed]}\napproval_rules:\n- name: reviewed\n  requires: {count: 1, teams: [acme/reviewers]}\n  if: {targets_branch: {pattern: '^(main)$'}}\n  options: {allow_author: false, allow_contributor: true, invalidate_on_push: true, ignore_update_merges: true}\n",
	// Updates by bots, or a review.
	"policy: {approval: [{or: [update, change]}]}\napproval_rules:\n- name: update\n  if: {only_has_contributors_in: {users: ['renovate[bot]']}, only_changed_files: {paths: ['^go.mod$']}}\n  requires: {count: 1, users: [reviewbot]}\n  options: {invalidate_on_push: true, request_review: {enabled: true, mode: random-users}}\n- name: change\n  if: {changed_files: {paths: ['.*']}}\n  requires: {count: 1, teams: [acme/engineering]}\n  options: {invalidate_on_push: true, request_review: {enabled: true}, methods: {github_review: true}}\n",
	// Alternatives by files, size and label.
	"policy: {approval: [{or: [tests, core, large, critical]}]}\napproval_rules:\n- {name: tests, if: {only_changed_files: {paths: ['_test\\.go$']}}, requires: {count: 1, teams: [acme/core]}}\n- {name: core, if: {changed_files: {paths: ['^core/', '^state/']}}, requires: {count: 2, teams: [acme/core]}}\n- {name: large, if: {modified_lines: {total: '> 1000'}}, requires: {count: 2, teams: [acme/core]}}\n- {name: critical, if: {has_labels: [critical]}, requires: {count: 3, teams: [acme/core]}}\n",
	// Workflows must have run.
	"policy: {approval: [{or: [{and: [release, default]}]}]}\napproval_rules:\n- name: release\n  if: {changed_files: {paths: ['^\\.github\\/workflows\\/release\\.yaml$']}}\n  requires: {conditions: {has_workflow_result: {workflows: [.github/workflows/release.yaml]}}}\n- {name: default}\n",
	// Metadata for maintainers, code for contributors, trivial changes for nobody.
	"policy:\n  approval:\n  - subject\n  - metadata\n  - or: [contributor, translation, trivial]\n  disapproval: {requires: {teams: [acme/contributors]}}\napproval_rules:\n- {name: subject, requires: {conditions: {title: {matches: ['^feat']}}}}\n- {name: metadata, if: {changed_files: {paths: ['^[^/]+\\.md', '^\\.policy\\.yml', '^\\.github/', '^LICENSE']}}, requires: {count: 1, teams: [acme/maintainers]}}\n- {name: contributor, requires: {count: 1, teams: [acme/contributors]}, options: {ignore_update_merges: true}}\n- {name: translation, if: {only_changed_files: {paths: ['^lang/']}, has_author_in: {teams: [acme/contributors]}}}\n- {name: trivial, if: {modified_lines: {total: '< 25'}, has_labels: [trivial]}}\n",
	// Infrastructure, two people.
	"policy: {approval: [infra, code]}\napproval_rules:\n- {name: infra, if: {changed_files: {paths: ['^terraform/.*\\.tf$', '^(prod|staging)/'], ignore: ['^prod/docs/']}}, requires: {count: 2, teams: [acme/sre], users: [alice]}, options: {invalidate_on_push: true}}\n- {name: code, requires: {count: 1, organizations: [acme]}}\n",
	// By permission.
	"policy: {approval: [writers]}\napproval_rules:\n- {name: writers, requires: {count: 1, permissions: [write]}}\n",
	// Several services, each with its team.
	"policy: {approval: [api, web, docs]}\napproval_rules:\n- {name: api, if: {changed_files: {paths: ['^services/api/.*']}}, requires: {count: 1, teams: [acme/api]}}\n- {name: web, if: {changed_files: {paths: ['^services/web/.*', '\\.css$']}}, requires: {count: 1, teams: [acme/web]}}\n- {name: docs, if: {changed_files: {paths: ['\\.md$', 'docs/']}}, requires: {count: 1, teams: [acme/docs, acme/web]}}\n",
	// A policy elsewhere.
	"remote: acme/policies\npath: default.yml\nref: main\n",
}

var plusCorpus = [][]convert.Source{
	{{Path: ".codeowners", Text: "* @alice\n"}},
	{{Path: ".codeowners", Text: "* @acme/core\n**/*.js @acme/web\n**/models/** @acme/data\n"}},
	{{Path: ".codeowners", Text: "* @acme/core\n& **/task.go @auditor\n? **/migrations/** @acme/data-team\n"}},
	{{Path: ".codeowners", Text: "* @acme/platform\n"}, {Path: "packages/a/.codeowners", Text: "* @acme/a\npackage.json @acme/platform\n"}, {Path: "packages/b/.codeowners", Text: "* @acme/b\ntest*.py @acme/tests\n"}},
	{{Path: ".codeowners", Text: "* @acme/core\n"}, {Path: "codeowners.toml", Text: "max_reviews = 2\nunskippable_reviewers = [\"@acme/sec\"]\nignore = [\"test_project\"]\n"}},
	{{Path: ".codeowners", Text: "* @acme/wrangler\n/packages/*/src/ @acme/core\n*config* @acme/build\n"}, {Path: "codeowners.toml", Text: "ignore = []\ndetailed_reviewers = true\ndisable_smart_dismissal = true\nsuppress_unowned_warning = true\n[enforcement]\napproval = true\nfail_check = false\n[admin_bypass]\nenabled = true\n"}},
	{{Path: ".codeowners", Text: "# fallback\n* @acme/core @acme/lead\nMakefile @acme/build\ndocs/ @acme/docs\n*.{yml,yaml} @acme/build\n"}},
	{{Path: ".codeowners", Text: "* @acme/core\n& src/Core/** @acme/framework @acme/lead\n& src/Storefront/** @acme/storefront\n& **/*.sql @dba\n"}, {Path: "codeowners.toml", Text: "min_reviews = 2\n"}},
	{{Path: "service/.codeowners", Text: "* @acme/service\nprefix_*/** @acme/x\ntest**.txt @acme/y\n"}},
	{{Path: ".codeowners", Text: "* @acme/core\nsecret docs@example.com\n"}, {Path: "codeowners.toml", Text: "allow_self_approval = true\nrequire_both_branch_reviewers = true\n"}},
}

var nativeCorpus = [][]convert.Source{
	{{Path: "CODEOWNERS", Text: "* @acme/core\n"}},
	{{Path: ".github/CODEOWNERS", Text: "# by area\n/docs/ @acme/docs\n*.go @alice @bob\n/gen/\n"}},
	{{Path: "docs/CODEOWNERS", Text: "* @acme/core\n/legal/ legal@example.com\n"}},
	{{Path: "CODEOWNERS", Text: "* @acme/core\n!/vendor/ @acme/x\n"}},
	{{Path: "CODEOWNERS", Text: "* @acme/core\n[Ss]rc/ @acme/x\n"}},
	{{Path: "CODEOWNERS", Text: "* @acme/core\n"}, {Path: "r.json", Text: `{"rules":[{"type":"pull_request","parameters":{"required_approving_review_count":1,"dismiss_stale_reviews_on_push":true,"require_code_owner_review":true}}]}`}},
	{{Path: "CODEOWNERS", Text: "* @acme/core\n"}, {Path: "r.json", Text: `{"rules":[{"type":"pull_request","parameters":{"required_approving_review_count":2,"require_code_owner_review":true,"require_last_push_approval":true}}],"bypass_actors":[{"actor_id":5}]}`}},
	{{Path: "CODEOWNERS", Text: "* @acme/core\n"}, {Path: "p.json", Text: `{"required_pull_request_reviews":{"dismiss_stale_reviews":false,"require_code_owner_reviews":true,"required_approving_review_count":1}}`}},
	{{Path: "CODEOWNERS", Text: "* @acme/core\n"}, {Path: "p.json", Text: `{"required_pull_request_reviews":{"require_code_owner_reviews":true,"required_approving_review_count":1,"bypass_pull_request_allowances":{"users":[{"login":"x"}]}}}`}},
	{{Path: "CODEOWNERS", Text: "* @acme/core\n/a\\ b/ @acme/x\n"}, {Path: "r.json", Text: `{"rules":[{"type":"pull_request","parameters":{"required_approving_review_count":1,"require_code_owner_review":true,"required_review_thread_resolution":true}}]}`}},
}

var extraCorpus = func() [][]convert.Source {
	var all [][]convert.Source
	for _, body := range []string{
		"", "allow_author_as_codeowner = true\n", "allow_delegation_for_policy_file = true\n",
		"[[delegations]]\napp = \"renovate\"\npaths = [\"/go.mod\"]\nfor_owners = [\"*\"]\n",
		"[[delegations]]\napp = \"renovate\"\npaths = [\"/go.mod\", \"/go.sum\"]\nfor_owners = [\"@acme/core\"]\nrequired_labels = [\"automated\"]\n",
		"[[delegations]]\napp = \"a\"\npaths = [\"/a/**\"]\nfor_owners = [\"*\"]\nforbidden_labels = [\"hold\"]\n[[delegations]]\napp = \"b\"\npaths = [\"/b/**\"]\nfor_owners = [\"@x\"]\n",
		"[[delegations]]\napp = \"bot\"\npaths = [\"docs/*\"]\nfor_owners = [\"@acme/docs\", \"@alice\"]\n", "[[delegations]]\napp = \"bot\"\npaths = [\"*.lock\"]\nfor_owners = [\"*\"]\n",
	} {
		all = append(all, []convert.Source{{Path: ".github/extra-codeowners.toml", Text: "schema_version = 1\nenabled = true\n" + body}})
	}
	org := "schema_version = 1\n[apps.bot]\nslug = \"bot\"\napp_id = 7\nbot_user_id = 8\n"
	return append(all, []convert.Source{{Path: "org.toml", Text: org}}, []convert.Source{{Path: "org.toml", Text: org + "[guardrails]\nnon_delegable_paths = [\"/prod/**\"]\n"}})
}()

// The share of what was said that is carried over, over ten inputs of each tool; docs/migration/README.md tells it.
func TestCorpus(t *testing.T) {
	t.Parallel()
	var bots [][]convert.Source
	for _, text := range botCorpus {
		bots = append(bots, []convert.Source{{Path: ".policy.yml", Text: text}})
	}
	for kind, c := range map[convert.Kind]struct {
		inputs [][]convert.Source
		least  float64
	}{
		convert.PolicyBot: {bots, 0.5}, convert.CodeownersPlus: {plusCorpus, 0.75}, convert.Native: {nativeCorpus, 0.75}, convert.ExtraCodeowners: {extraCorpus, 1},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			if len(c.inputs) < 10 {
				t.Fatalf("%d inputs", len(c.inputs))
			}
			carried, total, weakened := 0, 0, 0
			for i, sources := range c.inputs {
				r, err := convert.Convert(kind, sources)
				if err != nil {
					t.Errorf("input %d: %v", i, err)
					continue
				}
				again, err := convert.Convert(kind, sources)
				if err != nil || len(again.Files) != len(r.Files) || (len(r.Files) > 0 && again.Files[0] != r.Files[0]) {
					t.Errorf("input %d: another result for the same input", i)
				}
				for _, l := range r.Lost {
					if l.Why == "" || l.What == "" || l.Path == "" {
						t.Errorf("input %d: %+v does not say what, where and what to do", i, l)
					}
					if l.Weakens {
						weakened++
					}
				}
				carried, total = carried+len(r.Carried), total+len(r.Carried)+len(r.Lost)
				t.Logf("input %d: %d of %d; %s", i, len(r.Carried), len(r.Carried)+len(r.Lost), strings.Join(lost(r), "; "))
			}
			t.Logf("SHARE %s: %d of %d carried over, %d of the others weaken", kind, carried, total, weakened)
			if share := float64(carried) / float64(total); share < c.least {
				t.Errorf("only %.0f %% carried over", 100*share)
			}
		})
	}
}
