package ghclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

const (
	opBaseRules operation = "graphql.base_rules"
	opChanges   operation = "graphql.changes"
	// changesPerQuery keeps one query well within what GitHub answers in time.
	changesPerQuery = 50
)

// BaseRules is which rules a base branch has, without their texts.
type BaseRules struct {
	Tip string
	// Digest names the contents of every file that rules may come from; "" where one of them cannot be told by its object id.
	Digest string
}

// rulesDigest names the rule files of one commit: every candidate path that is there, in order, with its object id. A symbolic
// link is followed by nobody, and a file whose id is not known is not compared.
func rulesDigest(files []File) string {
	var b strings.Builder
	for _, f := range files {
		if f.Symlink || f.SHA == "" {
			return ""
		}
		fmt.Fprintf(&b, "%s\x00%s\n", f.Path, f.SHA)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:])
}

// RulesDigest is BaseRules.Digest for the rules that this evidence was read with.
func (e Evidence) RulesDigest() string {
	return rulesDigest(slices.Concat(e.CodeownersFiles, e.PolicyFiles))
}

// ChangeDigest names the change as GitHub counts it: its commits and its files. A push to the base moves the commit that the change
// is compared with only where it brings in commits of the branch, and then there are fewer of them.
func (p Pull) ChangeDigest() string {
	return fmt.Sprintf("%d commits, %d files", p.Commits, p.ChangedFiles)
}

// BaseRules reads which rules a branch has now: one request, and one moment for the tip and all files. Errors: ErrNotFound where the
// branch is gone, ErrInvalid where the server cannot name files by GraphQL, ErrMoved.
func (c *Client) BaseRules(ctx context.Context, r Repo, branch string) (BaseRules, error) {
	paths := slices.Concat(codeownersPaths, c.app.cfg.PolicyPaths)
	variables := map[string]any{"owner": r.Owner, "name": r.Name, "branch": "refs/heads/" + branch}
	for i, path := range paths {
		variables[fmt.Sprintf("f%d", i)] = path
	}
	what := fmt.Sprintf("read the rules of %s at %s", r.FullName(), branch)
	data, err := c.query(ctx, opBaseRules, baseRulesQuery(len(paths)), variables)
	if err != nil {
		return BaseRules{}, doing(err, "%s", what)
	}
	repository := data.at("repository").object()
	full, id := repository.at("nameWithOwner").text(), repository.at("databaseId").id()
	ref := repository.at("ref")
	if data.read.err == nil && ref.missing() {
		return BaseRules{}, doing(&apiError{sentinel: ErrNotFound, op: opBaseRules, text: "there is no such branch"}, "%s", what)
	}
	target := ref.at("target").object()
	rules := BaseRules{Tip: target.at("oid").sha()}
	var files []File
	for i, path := range paths {
		entry := target.at(fmt.Sprintf("f%d", i))
		if entry.missing() || entry.object().at("type").text() != "blob" {
			continue
		}
		files = append(files, File{Path: path, SHA: entry.at("oid").sha(), Symlink: entry.at("mode").count() == symlinkMode})
	}
	if data.read.err != nil {
		return BaseRules{}, doing(malformed(opBaseRules, data.read.err), "%s", what)
	}
	rules.Digest = rulesDigest(files)
	found, _ := RepoFromFullName(id, full)
	return rules, r.mustBe(opBaseRules, found)
}

// Changes counts the changes of pull requests, with the head each was counted at, in Pull's fields Number, HeadSHA, BaseRef, Commits
// and ChangedFiles; nothing else is filled. One that is gone is missing from the answer.
func (c *Client) Changes(ctx context.Context, r Repo, numbers []int) (map[int]Pull, error) {
	out := make(map[int]Pull, len(numbers))
	for batch := range slices.Chunk(numbers, changesPerQuery) {
		variables := map[string]any{"owner": r.Owner, "name": r.Name}
		tolerated := []string{}
		for i, n := range batch {
			variables[fmt.Sprintf("n%d", i)] = n
			tolerated = append(tolerated, fmt.Sprintf("repository.n%d", i))
		}
		data, err := c.query(ctx, opChanges, changesQuery(len(batch)), variables, tolerated...)
		if err != nil {
			return nil, doing(err, "count the changes of %d pull requests of %s", len(numbers), r.FullName())
		}
		repository := data.at("repository").object()
		for i, n := range batch {
			item := repository.at(fmt.Sprintf("n%d", i))
			if item.missing() {
				continue
			}
			if item.at("number").number() != n {
				item.at("number").fail("the number that was asked for")
			}
			out[n] = Pull{
				Number: n, HeadSHA: item.at("headRefOid").sha(), BaseRef: item.at("baseRefName").text(),
				Commits: item.at("commits").object().at("totalCount").count(), ChangedFiles: item.at("changedFiles").count(),
			}
		}
		if data.read.err != nil {
			return nil, doing(malformed(opChanges, data.read.err), "count the changes of %d pull requests of %s", len(numbers), r.FullName())
		}
	}
	return out, nil
}
