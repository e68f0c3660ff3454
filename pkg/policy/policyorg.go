package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits of the policy files (RG-373, RG-375, RG-377).
const (
	maxApps               = 50
	maxGuardrailPaths     = 100
	maxDelegations        = 100
	maxPathsPerEntry      = 100
	maxDelegationPatterns = 1000
	maxOwnersPerEntry     = 100
	maxLabelsPerEntry     = 50
	maxRequirements       = 100
)

// OrganizationRules is a compiled organisation policy: which Apps may give
// evidence at all, and what no repository can delegate.
type OrganizationRules struct {
	// Apps is keyed by alias, lower case.
	Apps map[string]EnrolledApp
	// NonDelegable are the organisation's guardrails. Repositories cannot
	// remove them (RG-379), nor can the operator (RG-346).
	NonDelegable *PathSet
}

// EnrolledApp is one App that an organisation trusts to be told apart.
type EnrolledApp struct {
	Alias     string
	Slug      string
	AppID     int64
	BotUserID int64
}

// BotLogin is the login of the App's bot account.
func (a EnrolledApp) BotLogin() string { return a.Slug + "[bot]" }

// ParseOrganizationPolicy reads an organisation policy file. The rules are nil
// when there is a problem: a file with a mistake grants nothing.
func ParseOrganizationPolicy(path string, text []byte) (*OrganizationRules, []FileProblem) {
	file, root := openTOML(path, text)
	if root == nil {
		return nil, file.sorted()
	}
	rules := &OrganizationRules{Apps: map[string]EnrolledApp{}}
	readSchemaVersion(root)
	if apps, ok := root.table("apps"); ok {
		readApps(apps, rules)
	}
	if rails, ok := root.table("guardrails"); ok {
		paths, _ := rails.texts("non_delegable_paths", 0, maxGuardrailPaths)
		rules.NonDelegable = compilePaths(file, rails.at("non_delegable_paths"), paths)
		rails.done()
	}
	root.done()
	if len(file.problems) > 0 {
		return nil, file.sorted()
	}
	return rules, nil
}

func readSchemaVersion(root *tomlTable) {
	if _, present := root.values["schema_version"]; !present {
		root.used["schema_version"] = true
		root.requireMissing("schema_version", "write schema_version = 1")
		return
	}
	if v, _ := root.take("schema_version"); v != any(int64(1)) {
		root.file.problem("schema_version", "%v is not a version that is known", "write schema_version = 1, an integer", v)
	}
}

func readApps(apps *tomlTable, rules *OrganizationRules) {
	file := apps.file
	if len(apps.values) > maxApps {
		file.problem(apps.key, "enrolls %d Apps", "keep at most %d", len(apps.values), maxApps)
		return
	}
	owners := map[string]string{}
	unique := func(key, what, alias string) {
		if other, taken := owners[what]; taken {
			file.problem(key, "the same value is already used by apps.%s", "each App is enrolled once", other)
			return
		}
		owners[what] = alias
	}
	for _, name := range sortedKeys(apps.values) {
		entry, ok := apps.table(name)
		if !ok {
			continue
		}
		alias := strings.ToLower(name)
		if !validAlias(alias) {
			file.problem(entry.key, "%s is not a valid alias",
				"use letters, digits, inner hyphens and underscores", strconv.Quote(clip(name, 100)))
		}
		unique(entry.key, "alias "+alias, name)
		app := readApp(entry, alias)
		if app.Slug != "" {
			unique(entry.at("slug"), "slug "+app.Slug, name)
		}
		if app.AppID != 0 {
			unique(entry.at("app_id"), fmt.Sprint("app_id ", app.AppID), name)
		}
		if app.BotUserID != 0 {
			unique(entry.at("bot_user_id"), fmt.Sprint("bot_user_id ", app.BotUserID), name)
		}
		rules.Apps[alias] = app
	}
}

func readApp(entry *tomlTable, alias string) EnrolledApp {
	app := EnrolledApp{Alias: alias}
	slug, ok := entry.text("slug")
	app.Slug = strings.ToLower(slug)
	if _, present := entry.values["slug"]; !present {
		entry.requireMissing("slug", "write the App's slug, the last part of its page's address")
	} else if ok && !validSlug(app.Slug) {
		entry.file.problem(entry.at("slug"), "%s is not an App slug", "use letters, digits and inner hyphens", strconv.Quote(clip(slug, 100)))
	}
	for name, target := range map[string]*int64{"app_id": &app.AppID, "bot_user_id": &app.BotUserID} {
		if _, present := entry.values[name]; !present {
			entry.used[name] = true
			entry.requireMissing(name, "write the numeric id that GitHub shows")
			continue
		}
		*target, _ = entry.integer(name, 1, 1<<62)
	}
	entry.done()
	return app
}

// validAlias is [a-z0-9]([a-z0-9_-]*[a-z0-9])? (RG-373).
func validAlias(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") == "" &&
		!strings.ContainsAny(s[:1]+s[len(s)-1:], "_-")
}

func validSlug(s string) bool { return validAlias(s) && !strings.Contains(s, "_") }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
