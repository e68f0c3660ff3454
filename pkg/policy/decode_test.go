package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/policy"
)

func TestDecodeSnapshot(t *testing.T) {
	t.Parallel()
	good := string(facts(approves("bob"), approves("alice")).MarshalCanonical())
	if s, err := policy.DecodeSnapshot([]byte(good)); err != nil || !policy.Evaluate(s).Conclusion.Approved() {
		t.Fatalf("the good snapshot: %v", err)
	}
	if strings.HasSuffix(good, "\n") || strings.Contains(good, `\u003c`) {
		t.Error("the canonical form ends in a line break or escapes HTML")
	}
	for _, row := range []struct{ name, old, new, want string }{
		{"an unknown key", `"version":1`, `"version":1,"extra":2`, "extra"},
		{"an unknown key inside", `"draft":false`, `"draft":false,"closed":true`, "closed"},
		{"a key in another case", `"head_sha"`, `"Head_SHA"`, "lower case"},
		{"a repeated key", `"version":1`, `"version":1,"version":1`, "given twice"},
		{"a repeated key inside", `"state":"APPROVED"`, `"state":"APPROVED","state":"DISMISSED"`, "pulls[0].reviews.items[0].state: the key is given twice"},
		{"another version", `"version":1`, `"version":2`, "version: 2 is not supported"},
		{"no version", `"version":1,`, ``, "version: 0 is not supported"},
		{"a wrong type", `"number":7`, `"number":"7"`, "number"},
		{"a fraction", `"number":7`, `"number":7.5`, "number"},
		{"a state outside its set", `"pulls_state":"present"`, `"pulls_state":"complete"`, `pulls_state: "complete" is none of present, absent or unknown`},
		{"a state inside outside its set", `"reviews":{"state":"present"`, `"reviews":{"state":"ok"`, "pulls[0].reviews.state"},
		{"a membership outside its set", `"bob":"active"`, `"bob":"member"`, "memberships.acme/platform.bob"},
		{"a look outside its set", `"allow_insecure_changes":false`, `"allow_insecure_changes":false,"missing_approval":"neutral"`, "settings.missing_approval"},
		{"a bad time", `"now":"2026`, `"now":"soon`, `"soon-03-04T12:00:00Z" is not RFC 3339`},
		{"data after it", `"version":1`, `"version":1}{`, "data follows"},
		{"no JSON", `{"version"`, `version`, "not valid JSON"},
		{"half of it", good[len(good)/2:], ``, "not valid JSON"},
		{"an array", good, `[]`, ""},
		{"nothing", good, ``, "not valid JSON"},
		{"nested without end", good, strings.Repeat(`{"a":`, 100_000), "nested too deeply"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(good, row.old) {
				t.Fatalf("%q is not in the snapshot", row.old)
			}
			s, err := policy.DecodeSnapshot([]byte(strings.Replace(good, row.old, row.new, 1)))
			if !errors.Is(err, policy.ErrSnapshot) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("error %v, want %q", err, row.want)
			}
			if policy.Evaluate(s).Conclusion.Approved() {
				t.Error("what comes with an error is approved")
			}
			if err != nil && len(err.Error()) > policy.MaxMessageChars {
				t.Errorf("RG-496: an error of %d bytes", len(err.Error()))
			}
		})
	}
}
