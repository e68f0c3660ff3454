package ghclient

import (
	"fmt"
	"strings"
)

// The GraphQL documents. They are plain text so that they can be read, and checked as they are against GitHub's published schema
// (queries_test.go). What varies in them is only how many policy paths and teams they ask about.

// codeownersPaths are the three places, in the order in which GitHub looks; the first that exists counts (RG-315).
var codeownersPaths = []string{".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"}

const (
	whoFragment = `
fragment Who on Actor { __typename login ... on User { databaseId } ... on Bot { databaseId } }`
	reviewsFragment = `
fragment Reviews on PullRequestReviewConnection { totalCount pageInfo { hasNextPage endCursor } nodes { fullDatabaseId state submittedAt commit { oid } author { ...Who } } }`
	pullFragment = `
fragment PullCore on PullRequest {
  id number state merged isDraft title url updatedAt changedFiles commits(first: 1) { totalCount } headRefOid headRefName baseRefName baseRefOid
  headRepository { databaseId nameWithOwner } baseRepository { databaseId nameWithOwner } author { ...Who }
  labels(first: 100) { totalCount nodes { name } }
}`
)

// evidenceQuery asks for everything one evaluation needs that GraphQL can prove. $branch is the base branch if it is known, else null,
// which GitHub takes as the default branch; the answer's baseRefName tells whether the guess was right. Without files it asks only what
// every server can answer.
func evidenceQuery(policyPaths int, files bool) string {
	var variables, repoFiles, orgFiles strings.Builder
	for i, path := range codeownersPaths {
		fmt.Fprintf(&repoFiles, " c%d: file(path: %q) { ...Entry }", i, path)
	}
	if !files {
		repoFiles.Reset()
		policyPaths = 0
	}
	for i := range policyPaths {
		fmt.Fprintf(&variables, ", $p%d: String!", i)
		fmt.Fprintf(&repoFiles, " p%d: file(path: $p%d) { ...Entry }", i, i)
		fmt.Fprintf(&orgFiles, " p%d: file(path: $p%d) { ...Entry }", i, i)
	}
	return `query Evidence($owner: String!, $name: String!, $number: Int!, $org: String!, $branch: String` + variables.String() + `) {
  repository(owner: $owner, name: $name, followRenames: false) {
    databaseId nameWithOwner isArchived isPrivate
    owner { __typename login }
    defaultBranchRef { name }
    codeowners(refName: $branch) { errors { line column kind source suggestion message path } }
    pullRequest(number: $number) {
      ...PullCore
      reviews(first: 100) { ...Reviews }
      baseRef { target { __typename oid ` + onCommit(&repoFiles) + ` } }
    }
  }
  org: repository(owner: $owner, name: $org, followRenames: false) {
    databaseId nameWithOwner isArchived
    defaultBranchRef { name target { __typename oid ` + onCommit(&orgFiles) + ` } }
  }
  rateLimit { cost limit remaining resetAt }
}` + whoFragment + reviewsFragment + pullFragment + entryFragment(files)
}

func onCommit(fields *strings.Builder) string {
	if fields.Len() == 0 {
		return ""
	}
	return "... on Commit {" + fields.String() + " }"
}

func entryFragment(files bool) string {
	if !files {
		return "" // a fragment nobody uses is an error
	}
	return `
fragment Entry on TreeEntry { mode type object { ... on Blob { oid byteSize isBinary isTruncated text } } }`
}

// pullStateQuery is the final re-read before a publication: everything the fences compare, the tip of the base branch included.
const pullStateQuery = `query PullState($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name, followRenames: false) {
    databaseId nameWithOwner
    pullRequest(number: $number) { ...PullCore baseRef { target { __typename oid } } }
  }
  rateLimit { cost limit remaining resetAt }
}` + whoFragment + pullFragment

const reviewsQuery = `query Reviews($owner: String!, $name: String!, $number: Int!, $after: String!) {
  repository(owner: $owner, name: $name, followRenames: false) {
    databaseId
    pullRequest(number: $number) { number headRefOid reviews(first: 100, after: $after) { ...Reviews } }
  }
  rateLimit { cost limit remaining resetAt }
}` + whoFragment + reviewsFragment

// teamsQuery asks about n teams of one organization at once: who they are, whether they may write to the repository, and who is in them.
func teamsQuery(n int) string {
	var variables, teams strings.Builder
	for i := range n {
		fmt.Fprintf(&variables, ", $t%d: String!", i)
		fmt.Fprintf(&teams, "\n    t%d: team(slug: $t%d) { ...TeamFacts }", i, i)
	}
	return `query Teams($org: String!, $repo: String!` + variables.String() + `) {
  organization(login: $org) {
    login` + teams.String() + `
  }
  rateLimit { cost limit remaining resetAt }
}
fragment TeamFacts on Team {
  databaseId slug privacy
  repositories(first: 100, query: $repo) { totalCount edges { permission node { databaseId nameWithOwner } } }
  members(first: 100, membership: ALL) { totalCount nodes { __typename login databaseId } }
}`
}

// baseRulesQuery asks for the tip of a branch and the object ids of n files there.
func baseRulesQuery(n int) string {
	var variables, files strings.Builder
	for i := range n {
		fmt.Fprintf(&variables, ", $f%d: String!", i)
		fmt.Fprintf(&files, " f%d: file(path: $f%d) { mode type oid }", i, i)
	}
	return `query BaseRules($owner: String!, $name: String!, $branch: String!` + variables.String() + `) {
  repository(owner: $owner, name: $name, followRenames: false) {
    databaseId nameWithOwner
    ref(qualifiedName: $branch) { target { __typename oid ` + onCommit(&files) + ` } }
  }
  rateLimit { cost limit remaining resetAt }
}`
}

// changesQuery asks for the size of n pull requests' changes.
func changesQuery(n int) string {
	var variables, pulls strings.Builder
	for i := range n {
		fmt.Fprintf(&variables, ", $n%d: Int!", i)
		fmt.Fprintf(&pulls, "\n    n%d: pullRequest(number: $n%d) { number headRefOid baseRefName changedFiles commits(first: 1) { totalCount } }", i, i)
	}
	return `query Changes($owner: String!, $name: String!` + variables.String() + `) {
  repository(owner: $owner, name: $name, followRenames: false) {
    databaseId` + pulls.String() + `
  }
  rateLimit { cost limit remaining resetAt }
}`
}

// baseChangeQuery asks for the last time the pull request was given another base branch, by hand or by GitHub.
const baseChangeQuery = `query BaseChange($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name, followRenames: false) {
    databaseId
    pullRequest(number: $number) {
      number
      timelineItems(last: 1, itemTypes: [BASE_REF_CHANGED_EVENT, AUTOMATIC_BASE_CHANGE_SUCCEEDED_EVENT]) {
        nodes { __typename ... on BaseRefChangedEvent { createdAt } ... on AutomaticBaseChangeSucceededEvent { createdAt } }
      }
    }
  }
  rateLimit { cost limit remaining resetAt }
}`
