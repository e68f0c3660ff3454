package ghclient

import (
	"context"
	"errors"
	"net/http"
)

const (
	opBranch      operation = "repos.get_branch"
	opBranchRules operation = "repos.get_branch_rules"
	opHookConfig  operation = "apps.get_webhook_config"
)

// RequiredCheck is one check that a branch demands before a merge.
type RequiredCheck struct {
	Context string
	// AppID is the App that the check has to come from; 0: any App, and any person who may write a status, satisfies it.
	AppID int64
	// Source is "branch protection" or "ruleset".
	Source string
}

// RequiredChecks are the checks that branch protection and the active rulesets demand on a branch. It needs contents:read for the former
// and metadata for the latter, no administration. A server without rulesets has none.
// https://docs.github.com/rest/repos/rules#get-rules-for-a-branch
func (c *Client) RequiredChecks(ctx context.Context, r Repo, branch string) ([]RequiredCheck, error) {
	protected, err := c.protectedBy(ctx, r, branch)
	if err != nil {
		return nil, doing(err, "read the protection of %s of %s", branch, r.FullName())
	}
	ruled, err := c.ruledBy(ctx, r, branch)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, doing(err, "read the rules for %s of %s", branch, r.FullName())
	}
	return append(protected, ruled...), nil
}

func (c *Client) protectedBy(ctx context.Context, r Repo, branch string) (all []RequiredCheck, err error) {
	path, err := r.path("branches", branch)
	if err != nil {
		return nil, err
	}
	root, err := c.get(ctx, opBranch, path, nil)
	if err != nil {
		return nil, err
	}
	checks := root.at("protection").at("required_status_checks")
	pinned := map[string]bool{}
	list, _ := checks.at("checks").elements() // absent where nothing is required, and on an older server
	for _, item := range list {
		one := RequiredCheck{Context: item.at("context").text(), AppID: item.at("app_id").optionalID(), Source: "branch protection"}
		pinned[one.Context] = true
		all = append(all, one)
	}
	contexts, _ := checks.at("contexts").elements()
	for _, item := range contexts {
		if name := item.text(); !pinned[name] {
			all = append(all, RequiredCheck{Context: name, Source: "branch protection"})
		}
	}
	if root.read.err != nil {
		return nil, malformed(opBranch, root.read.err)
	}
	return all, nil
}

func (c *Client) ruledBy(ctx context.Context, r Repo, branch string) (all []RequiredCheck, err error) {
	path, err := r.path("rules", "branches", branch)
	if err != nil {
		return nil, err
	}
	list := call{op: opBranchRules, method: http.MethodGet, path: path, installation: c.installation, perms: c.perms}
	err = c.app.each(ctx, list, "", aliases{repository: r.ID}, func(p *listPage) error {
		for _, rule := range p.items {
			if rule.object().at("type").text() != "required_status_checks" {
				continue
			}
			for _, item := range rule.at("parameters").at("required_status_checks").list() {
				all = append(all, RequiredCheck{Context: item.at("context").text(), AppID: item.at("integration_id").optionalID(), Source: "ruleset"})
			}
		}
		return nil
	})
	return all, err
}

// HookConfig is where GitHub sends the App's webhooks.
type HookConfig struct {
	URL         string
	ContentType string // json or form; only json is understood
	InsecureSSL bool   // certificates are not checked
	Signed      bool   // a secret is set
}

// HookConfig reads the App's webhook configuration. The secret itself is never shown by GitHub.
func (a *App) HookConfig(ctx context.Context) (HookConfig, error) {
	got, err := a.send(ctx, call{op: opHookConfig, method: http.MethodGet, path: "app/hook/config"})
	if err != nil {
		return HookConfig{}, doing(err, "read the webhook configuration of App %d", a.cfg.AppID)
	}
	root, err := parseObject(got.body)
	if err != nil {
		return HookConfig{}, malformed(opHookConfig, err)
	}
	h := HookConfig{
		URL: root.at("url").optionalText(), ContentType: root.at("content_type").optionalText(), Signed: root.at("secret").optionalText() != "",
		InsecureSSL: root.at("insecure_ssl").optionalText() == "1" || root.at("insecure_ssl").optionalID() == 1,
	}
	return h, nil
}
