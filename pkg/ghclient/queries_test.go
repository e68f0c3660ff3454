package ghclient

import (
	"os"
	"regexp"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// TestQueriesAgainstThePublishedSchema validates every document against GitHub's own schema. COUNTERSIGN_TEST_GRAPHQL_SCHEMA names
// schema.graphql of the npm package @octokit/graphql-schema; the text is not ours to keep. The stand-in validates every document it is
// sent as well, against the part of the schema it answers, so that the other tests of this package never depend on this one.
func TestQueriesAgainstThePublishedSchema(t *testing.T) {
	t.Parallel()
	path := os.Getenv("COUNTERSIGN_TEST_GRAPHQL_SCHEMA")
	if path == "" {
		t.Skip("COUNTERSIGN_TEST_GRAPHQL_SCHEMA is not set; see docs/github.md")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: path, Input: withoutDuplicate(string(text))})
	if err != nil {
		t.Fatal(err)
	}
	for name, document := range map[string]string{
		"evidence": evidenceQuery(2, true), "evidence, plain": evidenceQuery(2, false), "pull state": pullStateQuery, "reviews": reviewsQuery, "teams": teamsQuery(3), "base change": baseChangeQuery, "merge queue": mergeQueueQuery(true), "merge queue, its group alone": mergeQueueQuery(false),
		"base rules": baseRulesQuery(5), "changes": changesQuery(3),
	} {
		if _, errs := gqlparser.LoadQueryWithRules(schema, document, nil); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

// withoutDuplicate drops the one type of the published text that declares a field twice, and the field of that type.
func withoutDuplicate(text string) string {
	const description = `(?:"""(?:[^"]|"[^"])*?"""\n\s*)?`
	text = regexp.MustCompile(`(?ms)^`+description+`type EnterpriseOwnerInfo \{.*?^\}\n`).ReplaceAllString(text, "")
	return regexp.MustCompile(description+`ownerInfo: EnterpriseOwnerInfo\n`).ReplaceAllString(text, "")
}
