package ghclient

import (
	"strings"
	"testing"
)

// BenchmarkDecodeEvent decodes a payload of a realistic size: GitHub's pull_request payloads are some 25 kB, most of it of no interest.
func BenchmarkDecodeEvent(b *testing.B) {
	filler := `"user":{"login":"alice","id":5,"type":"User","avatar_url":"https://avatars.example/u/5?v=4","url":"https://api.example/users/alice","html_url":"https://example/alice","followers_url":"https://api.example/users/alice/followers","site_admin":false}`
	body := []byte(object(`"action":"synchronize"`, `"before":"`+shaB+`"`, instJSON, repoJSON, userJSON, pullJSON(), `"enterprise":{`+strings.TrimSuffix(strings.Repeat(filler+",", 90), ",")+`}`))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeEvent("pull_request", body, AppIdentity{ID: testAppID}, ".github", nil); err != nil {
			b.Fatal(err)
		}
	}
}
