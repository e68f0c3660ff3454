package githubsim

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// How a route is authenticated.
const (
	authRepo  = iota // installation or user token that sees the repository
	authToken        // any installation or user token
	authJWT          // the App's JWT
	authAny          // anything, also nothing
)

// route is one route of GitHub's REST API.
type route struct {
	method    string
	pattern   string // as GitHub's documentation writes it
	segments  []string
	auth      int
	need      need
	userRight string // what a person needs on the repository to write
	read      bool   // a read although its method is not GET
	free      bool   // costs no budget
	resource  string // "": core
	handle    func(c *call) answer
}

// routeTable lists every route. In a segment {x+} stands for one segment or
// more: a branch name or a path with slashes in it.
func routeTable() []*route {
	const repo = "/repos/{owner}/{repo}"
	table := []*route{
		{method: "GET", pattern: "/app", auth: authJWT, handle: getApp},
		{method: "GET", pattern: "/app/hook/config", auth: authJWT, handle: getHookConfig},
		{method: "GET", pattern: "/app/hook/deliveries", auth: authJWT, handle: listDeliveries},
		{method: "GET", pattern: "/app/hook/deliveries/{delivery_id}", auth: authJWT, handle: getDelivery},
		{method: "POST", pattern: "/app/hook/deliveries/{delivery_id}/attempts", auth: authJWT, handle: redeliver},
		{method: "GET", pattern: "/app/installations", auth: authJWT, handle: listInstallations},
		{method: "GET", pattern: "/app/installations/{installation_id}", auth: authJWT, handle: getInstallation},
		{method: "POST", pattern: "/app/installations/{installation_id}/access_tokens", auth: authJWT, handle: createToken},
		{method: "PUT", pattern: "/app/installations/{installation_id}/suspended", auth: authJWT, handle: suspendInstallation},
		{method: "DELETE", pattern: "/app/installations/{installation_id}/suspended", auth: authJWT, handle: unsuspendInstallation},
		{method: "GET", pattern: "/orgs/{org}/installation", auth: authJWT, handle: getOrgInstallation},
		{method: "GET", pattern: repo + "/installation", auth: authJWT, handle: getRepoInstallation},
		{method: "GET", pattern: "/apps/{app_slug}", auth: authAny, handle: getAppBySlug},
		{method: "POST", pattern: "/app-manifests/{code}/conversions", auth: authAny, handle: convertManifest},
		{method: "GET", pattern: "/installation/repositories", auth: authToken, handle: listInstallationRepos},
		{method: "DELETE", pattern: "/installation/token", auth: authToken, handle: revokeToken},
		{method: "GET", pattern: "/rate_limit", auth: authAny, free: true, handle: getRateLimit},
		{method: "GET", pattern: "/versions", auth: authAny, handle: getVersions},
		{method: "GET", pattern: "/meta", auth: authAny, handle: getMeta},
		{method: "GET", pattern: "/user", auth: authToken, handle: getSelf},
		{method: "GET", pattern: "/user/installations", auth: authToken, handle: listUserInstallations},
		{method: "GET", pattern: "/user/installations/{installation_id}/repositories", auth: authToken, handle: listUserInstallationRepos},
		{method: "GET", pattern: "/users/{username}", auth: authAny, handle: getUser},
		{method: "POST", pattern: "/graphql", auth: authToken, read: true, resource: "graphql", handle: graphqlQuery},

		{method: "GET", pattern: "/orgs/{org}/teams/{team_slug}", auth: authToken, need: parseNeed("members=read"), handle: getTeam},
		{method: "PATCH", pattern: "/orgs/{org}/teams/{team_slug}", auth: authToken, need: parseNeed("members=write"), handle: updateTeam},
		{method: "PUT", pattern: "/orgs/{org}/teams/{team_slug}/repos/{owner}/{repo}", auth: authToken, need: parseNeed("members=write"), handle: putTeamRepo},
		{method: "DELETE", pattern: "/orgs/{org}/teams/{team_slug}/repos/{owner}/{repo}", auth: authToken, need: parseNeed("members=write"), handle: deleteTeamRepo},
		{method: "GET", pattern: "/orgs/{org}/teams/{team_slug}/members", auth: authToken, need: parseNeed("members=read"), handle: listTeamMembers},
		{method: "GET", pattern: "/orgs/{org}/teams/{team_slug}/memberships/{username}", auth: authToken, need: parseNeed("members=read"), handle: getTeamMembership},
		{method: "PUT", pattern: "/orgs/{org}/teams/{team_slug}/memberships/{username}", auth: authToken, need: parseNeed("members=write"), handle: putTeamMembership},
		{method: "DELETE", pattern: "/orgs/{org}/teams/{team_slug}/memberships/{username}", auth: authToken, need: parseNeed("members=write"), handle: deleteTeamMembership},
		{method: "GET", pattern: "/orgs/{org}/teams/{team_slug}/repos/{owner}/{repo}", auth: authToken, need: parseNeed("members=read"), handle: getTeamRepo},

		{method: "GET", pattern: repo, need: parseNeed("metadata=read"), handle: getRepo},
		{method: "PATCH", pattern: repo, need: parseNeed("administration=write"), userRight: "admin", handle: updateRepo},
		{method: "GET", pattern: repo + "/activity", need: parseNeed("contents=read"), handle: listActivity},
		{method: "GET", pattern: repo + "/branches", need: parseNeed("contents=read"), handle: listBranches},
		{method: "GET", pattern: repo + "/branches/{branch+}", need: parseNeed("contents=read"), handle: getBranch},
		{method: "GET", pattern: repo + "/rules/branches/{branch+}", need: parseNeed("metadata=read"), handle: branchRules},
		{method: "GET", pattern: repo + "/codeowners/errors", need: parseNeed("contents=read"), handle: codeownersErrors},
		{method: "GET", pattern: repo + "/collaborators/{username}/permission", need: parseNeed("metadata=read"), handle: getPermission},
		{method: "PUT", pattern: repo + "/collaborators/{username}", need: parseNeed("administration=write"), userRight: "admin", handle: putCollaborator},
		{method: "DELETE", pattern: repo + "/collaborators/{username}", need: parseNeed("administration=write"), userRight: "admin", handle: deleteCollaborator},
		{method: "GET", pattern: repo + "/compare/{basehead+}", need: parseNeed("contents=read"), handle: compare},
		{method: "GET", pattern: repo + "/contents/{path+}", need: parseNeed("contents=read; single_file=read"), handle: getContents},
		{method: "GET", pattern: repo + "/contents/", need: parseNeed("contents=read"), handle: getContents},
		{method: "GET", pattern: repo + "/contents", need: parseNeed("contents=read"), handle: getContents},
		{method: "PUT", pattern: repo + "/contents/{path+}", need: parseNeed("contents=write"), userRight: "push", handle: putContents},
		{method: "DELETE", pattern: repo + "/contents/{path+}", need: parseNeed("contents=write"), userRight: "push", handle: deleteContents},
		{method: "POST", pattern: repo + "/git/refs", need: parseNeed("contents=write"), userRight: "push", handle: createRef},
		{method: "PATCH", pattern: repo + "/git/refs/{ref+}", need: parseNeed("contents=write"), userRight: "push", handle: updateRef},
		{method: "DELETE", pattern: repo + "/git/refs/{ref+}", need: parseNeed("contents=write"), userRight: "push", handle: deleteRef},
		{method: "GET", pattern: repo + "/git/blobs/{file_sha}", need: parseNeed("contents=read"), handle: getBlob},
		{method: "GET", pattern: repo + "/git/commits/{commit_sha}", need: parseNeed("contents=read"), handle: getGitCommit},
		{method: "GET", pattern: repo + "/git/ref/{ref+}", need: parseNeed("contents=read"), handle: getRef},
		{method: "GET", pattern: repo + "/git/trees/{tree_sha+}", need: parseNeed("contents=read"), handle: getTree},
		{method: "GET", pattern: repo + "/commits/{ref+}/check-runs", need: parseNeed("checks=read"), handle: listCheckRuns},
		{method: "GET", pattern: repo + "/commits/{ref+}/check-suites", need: parseNeed("checks=read"), handle: listCheckSuites},
		{method: "GET", pattern: repo + "/commits/{commit_sha}/pulls", need: parseNeed("pull_requests=read; contents=read"), handle: listCommitPulls},
		{method: "GET", pattern: repo + "/commits/{ref+}", need: parseNeed("contents=read"), handle: getCommit},
		{method: "POST", pattern: repo + "/check-runs", need: parseNeed("checks=write"), handle: createCheckRun},
		{method: "GET", pattern: repo + "/check-runs/{check_run_id}", need: parseNeed("checks=read"), handle: getCheckRun},
		{method: "PATCH", pattern: repo + "/check-runs/{check_run_id}", need: parseNeed("checks=write"), handle: updateCheckRun},
		{method: "POST", pattern: repo + "/check-runs/{check_run_id}/rerequest", need: parseNeed("checks=write"), handle: rerequestRun},
		{method: "GET", pattern: repo + "/check-runs/{check_run_id}/annotations", need: parseNeed("checks=read"), handle: listAnnotations},
		{method: "GET", pattern: repo + "/check-suites/{check_suite_id}/check-runs", need: parseNeed("checks=read"), handle: listSuiteRuns},
		{method: "GET", pattern: repo + "/issues/{number}/comments", need: parseNeed("issues=read; pull_requests=read"), handle: listComments},
		{method: "POST", pattern: repo + "/issues/{number}/comments", need: parseNeed("issues=write; pull_requests=write"), userRight: "pull", handle: createComment},
		{method: "POST", pattern: repo + "/issues/{number}/labels", need: parseNeed("issues=write; pull_requests=write"), userRight: "triage", handle: addLabels},
		{method: "DELETE", pattern: repo + "/issues/{number}/labels/{name}", need: parseNeed("issues=write; pull_requests=write"), userRight: "triage", handle: removeLabel},
		{method: "GET", pattern: repo + "/pulls", need: parseNeed("pull_requests=read"), handle: listPulls},
		{method: "POST", pattern: repo + "/pulls", need: parseNeed("pull_requests=write"), userRight: "pull", handle: createPull},
		{method: "GET", pattern: repo + "/pulls/{number}", need: parseNeed("pull_requests=read; contents=read"), handle: getPull},
		{method: "PATCH", pattern: repo + "/pulls/{number}", need: parseNeed("pull_requests=write"), userRight: "pull", handle: updatePull},
		{method: "GET", pattern: repo + "/pulls/{number}/commits", need: parseNeed("pull_requests=read"), handle: listPullCommits},
		{method: "GET", pattern: repo + "/pulls/{number}/files", need: parseNeed("pull_requests=read"), handle: listPullFiles},
		{method: "PUT", pattern: repo + "/pulls/{number}/merge", need: parseNeed("contents=write"), userRight: "push", handle: mergePull},
		{method: "GET", pattern: repo + "/pulls/{number}/requested_reviewers", need: parseNeed("pull_requests=read"), handle: getRequested},
		{method: "POST", pattern: repo + "/pulls/{number}/requested_reviewers", need: parseNeed("pull_requests=write"), userRight: "pull", handle: requestReviewers},
		{method: "DELETE", pattern: repo + "/pulls/{number}/requested_reviewers", need: parseNeed("pull_requests=write"), userRight: "pull", handle: removeRequested},
		{method: "GET", pattern: repo + "/pulls/{number}/reviews", need: parseNeed("pull_requests=read"), handle: listReviews},
		{method: "POST", pattern: repo + "/pulls/{number}/reviews", need: parseNeed("pull_requests=write"), userRight: "pull", handle: createReview},
		{method: "GET", pattern: repo + "/pulls/{number}/reviews/{review_id}", need: parseNeed("pull_requests=read"), handle: getReview},
		{method: "PUT", pattern: repo + "/pulls/{number}/reviews/{review_id}", need: parseNeed("pull_requests=write"), userRight: "pull", handle: updateReview},
		{method: "PUT", pattern: repo + "/pulls/{number}/reviews/{review_id}/dismissals", need: parseNeed("pull_requests=write"), userRight: "push", handle: dismissReview},
		{method: "POST", pattern: repo + "/pulls/{number}/reviews/{review_id}/events", need: parseNeed("pull_requests=write"), userRight: "pull", handle: submitReview},
	}
	for _, r := range table {
		r.segments = strings.Split(strings.Trim(r.pattern, "/"), "/")
	}
	return table
}

// match finds the route of a path. The aliases by id lead to the same routes.
func (s *Sim) match(method, path string) (*route, map[string]string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, p := range parts {
		if text, err := url.PathUnescape(p); err == nil {
			parts[i] = text
		}
	}
	parts = s.unalias(parts)
	for _, r := range s.routes {
		if r.method != method {
			continue
		}
		if vars, ok := matchSegments(r.segments, parts); ok {
			return r, vars
		}
	}
	return nil, nil
}

func matchSegments(pattern, parts []string) (map[string]string, bool) {
	vars := map[string]string{}
	for i, seg := range pattern {
		if i >= len(parts) {
			return nil, false
		}
		name, isVar := strings.CutPrefix(seg, "{")
		name = strings.TrimSuffix(name, "}")
		if many, is := strings.CutSuffix(name, "+"); is {
			tail := pattern[i+1:]
			end := len(parts) - len(tail)
			if end <= i {
				return nil, false
			}
			vars[many] = strings.Join(parts[i:end], "/")
			rest, ok := matchSegments(tail, parts[end:])
			for k, v := range rest {
				vars[k] = v
			}
			return vars, ok && vars[many] != ""
		}
		if isVar {
			vars[name] = parts[i]
			continue
		}
		if seg != parts[i] {
			return nil, false
		}
	}
	return vars, len(parts) == len(pattern)
}

// unalias turns /repositories/{id}/… and /organizations/{id}/team/{id}/… into
// the routes by name.
func (s *Sim) unalias(parts []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := func(i int) int64 { n, _ := strconv.ParseInt(parts[i], 10, 64); return n }
	switch {
	case len(parts) >= 2 && parts[0] == "repositories":
		if r := s.world.repos[id(1)]; r != nil {
			return append([]string{"repos", s.world.accounts[r.ownerID].login, r.name}, parts[2:]...)
		}
	case len(parts) >= 4 && parts[0] == "organizations" && parts[2] == "team":
		if t := s.world.teams[id(3)]; t != nil && t.orgID == id(1) {
			return append([]string{"orgs", s.world.accounts[t.orgID].login, "teams", t.slug}, parts[4:]...)
		}
	}
	return parts
}

// Route names one route that the stand-in serves.
type Route struct {
	Method  string
	Pattern string // GitHub's way of writing it; {name+} spans several segments
}

// Routes lists every route that the stand-in serves.
func Routes() []Route {
	var list []Route
	for _, r := range routeTable() {
		list = append(list, Route{r.method, r.pattern})
	}
	return list
}
