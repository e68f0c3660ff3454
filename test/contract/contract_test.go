package main

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// small is a description with one route, one webhook and what they refer to.
const small = `{
 "openapi": "3.0.3", "info": {"title": "t", "version": "1"},
 "paths": {
  "/things/{thing_id}": {
   "get": {"description": "prose", "parameters": [{"name": "thing_id", "in": "path", "required": true, "schema": {"type": "integer"}}],
    "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/thing"}}}}}},
   "delete": {"responses": {"204": {"description": "gone"}}}
  }
 },
 "x-webhooks": {"thing-made": {"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/event"}}}}}}},
 "components": {"schemas": {
  "thing": {"type": "object", "required": ["id", "old"], "properties": {"id": {"type": "integer"}, "old": {"type": "string"}, "description": {"type": "string", "example": "x"}},
   "x-github-breaking-changes": [{"version": "2026-03-10", "patch": {"properties": {"old": null}}}]},
  "event": {"type": "object", "required": ["thing"], "properties": {"thing": {"$ref": "#/components/schemas/thing"}}},
  "unused": {"type": "string"}
 }}}`

func parsed(t *testing.T) object {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(small), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestTrimKeepsWhatIsWantedAndItsComponents(t *testing.T) {
	t.Parallel()
	o := trim(parsed(t), map[string]bool{"GET /things/{}": true})
	operations := dig(o, "paths", "/things/{thing_id}")
	if operations["get"] == nil || operations["delete"] != nil {
		t.Errorf("operations: %v", operations)
	}
	schemas := dig(o, "components", "schemas")
	if schemas["thing"] == nil || schemas[hookSchema("thing-made")] == nil || schemas["unused"] != nil {
		t.Errorf("schemas: %v", schemas)
	}
	property := dig(schemas, "thing", "properties", "description")
	if property["type"] != "string" || property["example"] != nil {
		t.Errorf("a property named description became %v", property)
	}
}

func TestALaterVersionLosesWhatGitHubSaysItLoses(t *testing.T) {
	t.Parallel()
	o := parsed(t)
	if err := forVersion(o, "2026-03-10"); err != nil {
		t.Fatal(err)
	}
	requireOnlyKnown(o)
	thing := dig(o, "components", "schemas", "thing")
	if dig(thing, "properties")["old"] != nil {
		t.Error("the property is still there")
	}
	if required, _ := json.Marshal(thing["required"]); string(required) != `["id"]` {
		t.Errorf("required: %s", required)
	}
}

func TestPatches(t *testing.T) {
	t.Parallel()
	t.Run("each has a reason and operations", func(t *testing.T) {
		t.Parallel()
		list, err := patches()
		if err != nil || len(list) != 4 {
			t.Fatalf("%d patches, %v; want the four known ones", len(list), err)
		}
	})
	t.Run("a star is every key, and add leaves what is there", func(t *testing.T) {
		t.Parallel()
		o := parsed(t)
		if err := apply(o, object{"op": "add", "path": "/paths/*/*/responses/200", "value": "changed"}); err != nil {
			t.Fatal(err)
		}
		if dig(o, "paths", "/things/{thing_id}", "delete", "responses")["200"] != "changed" {
			t.Error("not added where it was missing")
		}
		if dig(o, "paths", "/things/{thing_id}", "get", "responses")["200"] == "changed" {
			t.Error("added over what was there")
		}
	})
	t.Run("a replacement of nothing is an error", func(t *testing.T) {
		t.Parallel()
		if err := apply(parsed(t), object{"op": "replace", "path": "/components/schemas/nothing", "value": 1}); err == nil {
			t.Error("no error: a patch that no longer applies would go unnoticed")
		}
	})
}

func TestFitMatchesPathsWithSlashes(t *testing.T) {
	t.Parallel()
	values, ok := fit("/repos/{owner}/{repo}/contents/{path}", []string{"repos", "o", "r", "contents", "a", "b.md"})
	if !ok || values["path"] != "a/b.md" {
		t.Errorf("%v %v", values, ok)
	}
	if _, ok := fit("/repos/{owner}/{repo}", []string{"repos", "o", "r", "pulls"}); ok {
		t.Error("a longer path fits")
	}
}

func TestCorruptChangesExactlyOnePlace(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	body := []byte(`{"a":1,"b":{"c":"x"},"d":[{"e":true}]}`)
	for kind := range corruptions {
		for range 20 {
			spoilt, where, ok := corrupt(body, kind, r)
			if !ok || string(spoilt) == string(body) {
				t.Fatalf("%s: %v, unchanged %s", kind, ok, spoilt)
			}
			if !strings.Contains(where, kind.String()) {
				t.Errorf("says %q", where)
			}
		}
	}
}

const theirs = `enum State { A B } interface Node { id: ID! }
type Thing implements Node { id: ID! state: State! list(first: Int): [Thing!] name: String }
type Query { thing(id: ID!): Thing }`

func schemaOf(t *testing.T, text string) *ast.Schema {
	t.Helper()
	s, err := gqlparser.LoadSchema(&ast.Source{Input: text})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSubsetNamesEveryDifference(t *testing.T) {
	t.Parallel()
	if wrong := subset(schemaOf(t, theirs), schemaOf(t, theirs)); len(wrong) != 0 {
		t.Errorf("equal schemas differ: %q", wrong)
	}
	mine := `enum State { A C } type Thing { id: ID! state: State extra: Int name: String! } type Query { thing(id: String!): Thing }`
	got := strings.Join(subset(schemaOf(t, mine), schemaOf(t, theirs)), "\n")
	for _, want := range []string{"enum State: has no C", "Thing.extra: GitHub has no such field", "Thing.state: is State, GitHub says State!", "Thing.name", "Query.thing(id: String!)"} {
		if !strings.Contains(got, want) {
			t.Errorf("not named: %s in\n%s", want, got)
		}
	}
}

func TestCheckGraphQLNoticesWrongAnswers(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, theirs)
	sent := []byte(`{"query":"query($id: ID!) { thing(id: $id) { id state list(first: 1) { __typename ... on Node { id } } } }","variables":{"id":"1"}}`)
	for _, c := range []struct {
		name, answer string
		good         bool
	}{
		{"a good answer", `{"data":{"thing":{"id":"1","state":"A","list":[{"__typename":"Thing","id":"2"}]}}}`, true},
		{"a null that may be", `{"data":{"thing":null}}`, true},
		{"an error instead of data", `{"errors":[{"message":"no"}]}`, true},
		{"neither", `{}`, false},
		{"a null that may not be", `{"data":{"thing":{"id":null,"state":"A","list":null}}}`, false},
		{"a missing field", `{"data":{"thing":{"id":"1","list":null}}}`, false},
		{"a value that the enum lacks", `{"data":{"thing":{"id":"1","state":"Z","list":null}}}`, false},
		{"a wrong type", `{"data":{"thing":{"id":1,"state":"A","list":null}}}`, false},
		{"no list", `{"data":{"thing":{"id":"1","state":"A","list":{}}}}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if err := checkGraphQL(s, sent, []byte(c.answer)); (err == nil) != c.good {
				t.Errorf("%v", err)
			}
		})
	}
	if checkGraphQL(s, []byte(`{"query":"{ thing(id: 1) { nothing } }"}`), []byte(`{"data":null}`)) == nil {
		t.Error("a document with an unknown field is accepted")
	}
}
