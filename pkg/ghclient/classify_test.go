package ghclient

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

var sentinels = []error{ErrNotFound, ErrForbidden, ErrUnauthorized, ErrSuspended, ErrInstallationGone, ErrRateLimited, ErrInvalid, ErrConflict,
	ErrMalformed, ErrTooLarge, ErrUnavailable, ErrUnknownOutcome, ErrMoved}

func headers(lines ...string) http.Header {
	h := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Set(name, value)
	}
	return h
}

func TestClassify(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const (
		secondary = `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits","status":"403"}`
		primary   = `{"message":"API rate limit exceeded for installation ID 11.","status":"403"}`
	)
	for _, tt := range []struct {
		name   string
		status int
		body   string
		header []string
		write  bool
		want   error
		kind   string
		after  time.Duration
	}{
		{name: "RG-272 429 without anything", status: 429, want: ErrRateLimited, kind: "secondary", after: time.Minute},
		{name: "RG-272 429 primary", status: 429, body: primary, header: []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: " + unix(now.Add(90*time.Second))}, want: ErrRateLimited, kind: "primary", after: 90 * time.Second},
		{name: "RG-272 403 with retry-after", status: 403, body: `{"message":"x"}`, header: []string{"Retry-After: 7"}, want: ErrRateLimited, kind: "secondary", after: 7 * time.Second},
		{name: "RG-272 403 with remaining 0", status: 403, body: primary, header: []string{"X-RateLimit-Remaining: 0"}, want: ErrRateLimited, kind: "primary", after: time.Minute},
		{name: "RG-272 403 whose message says so", status: 403, body: secondary, header: []string{"X-RateLimit-Remaining: 4000", "X-RateLimit-Reset: " + unix(now.Add(time.Hour))}, want: ErrRateLimited, kind: "secondary", after: time.Minute},
		{name: "RG-272 the old abuse text", status: 403, body: `{"message":"You have triggered an abuse detection mechanism. Please wait.","documentation_url":"https://developer.github.com/v3/#abuse-rate-limits"}`, want: ErrRateLimited, kind: "secondary", after: time.Minute},
		{name: "RG-272 secondary with remaining 0", status: 403, body: secondary, header: []string{"X-RateLimit-Remaining: 0", "Retry-After: 30"}, want: ErrRateLimited, kind: "secondary", after: 30 * time.Second},
		{name: "RG-272 a write is refused, not uncertain", status: 403, body: secondary, write: true, want: ErrRateLimited, kind: "secondary", after: time.Minute},
		{name: "403 for a permission", status: 403, body: `{"message":"Resource not accessible by integration","status":"403"}`, header: []string{"X-RateLimit-Remaining: 4999"}, want: ErrForbidden},
		{name: "403 for the App of a run", status: 403, body: "{\"message\":\"Invalid app_id `15368` - check run can only be modified by the GitHub App that created it.\"}", write: true, want: ErrForbidden},
		{name: "403 for a suspension", status: 403, body: `{"message":"This installation has been suspended","status":"403"}`, want: ErrSuspended},
		{name: "401", status: 401, body: `{"message":"Bad credentials"}`, want: ErrUnauthorized},
		{name: "404", status: 404, body: `{"message":"Not Found"}`, want: ErrNotFound},
		{name: "410", status: 410, body: `{"message":"Gone"}`, want: ErrNotFound},
		{name: "301 of a renamed repository", status: 301, body: `{"message":"Moved Permanently","url":"https://api.github.com/repositories/101"}`, header: []string{"Location: https://api.github.com/repositories/101"}, want: ErrMoved},
		{name: "307", status: 307, want: ErrMoved},
		{name: "304 nobody asked for", status: 304, want: ErrMalformed},
		{name: "409", status: 409, body: `{"message":"Git Repository is empty."}`, want: ErrConflict},
		{name: "400", status: 400, body: `{"message":"Problems parsing JSON"}`, want: ErrInvalid},
		{name: "422 with objects", status: 422, body: `{"message":"Validation Failed","errors":[{"resource":"CheckRun","code":"missing_field","field":"conclusion"}]}`, write: true, want: ErrInvalid},
		{name: "422 with strings", status: 422, body: `{"message":"Unprocessable Entity","errors":["Can not approve your own pull request"]}`, write: true, want: ErrInvalid},
		{name: "422 with a message only", status: 422, body: `{"message":"Invalid request.\n\nNo subschema in \"anyOf\" matched."}`, write: true, want: ErrInvalid},
		{name: "422 for a ref that doesn't exist", status: 422, body: `{"message":"No commit found for SHA: x"}`, want: ErrNotFound},
		{name: "406 for a diff", status: 406, body: `{"message":"Sorry, the diff exceeded the maximum number of files (300).","errors":[{"resource":"PullRequest","field":"diff","code":"too_large"}]}`, want: ErrTooLarge},
		{name: "413", status: 413, want: ErrTooLarge},
		{name: "451", status: 451, body: `{"message":"Repository access blocked"}`, want: ErrForbidden},
		{name: "500 on a read", status: 500, body: `{"message":"Server Error"}`, want: ErrUnavailable},
		{name: "502 in HTML", status: 502, body: "<html><h1>Unicorn!</h1></html>", header: []string{"Content-Type: text/html"}, want: ErrUnavailable},
		{name: "503 cut short", status: 503, body: `{"message":"Serv`, want: ErrUnavailable},
		{name: "502 on a write", status: 502, body: "<html>", write: true, want: ErrUnknownOutcome},
		{name: "100-class nonsense", status: 199, want: ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := classify(call{op: "test", write: tt.write, installation: 11}, answer{status: tt.status, header: headers(tt.header...), body: []byte(tt.body)}, now)
			for _, s := range sentinels {
				if errors.Is(err, s) != errors.Is(tt.want, s) {
					t.Errorf("%v: Is(%v) = %v", err, s, errors.Is(err, s))
				}
			}
			var limit *RateLimitError
			if errors.As(err, &limit) && (limit.Kind != tt.kind || limit.After != tt.after || limit.Installation != 11) {
				t.Errorf("got %+v, want %s %s", limit, tt.kind, tt.after)
			}
		})
	}
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		header []string
		want   time.Duration
	}{
		{"seconds", []string{"Retry-After: 17"}, 17 * time.Second},
		{"fractional seconds round up", []string{"Retry-After: 1.2"}, 2 * time.Second},
		{"a date", []string{"Retry-After: " + now.Add(42*time.Second).Format(http.TimeFormat)}, 42 * time.Second},
		{"a date that has passed", []string{"Retry-After: " + now.Add(-time.Hour).Format(http.TimeFormat)}, time.Second},
		{"retry-after wins over the reset", []string{"Retry-After: 3", "X-RateLimit-Reset: " + unix(now.Add(time.Hour))}, 3 * time.Second},
		{"the reset", []string{"X-RateLimit-Reset: " + unix(now.Add(600*time.Second))}, 600 * time.Second},
		{"the reset where retry-after is unreadable", []string{"Retry-After: soon", "X-RateLimit-Reset: " + unix(now.Add(600*time.Second))}, 600 * time.Second},
		{"neither", nil, time.Minute},
		{"zero", []string{"Retry-After: 0"}, time.Second},
		{"negative", []string{"Retry-After: -5"}, time.Second},
		{"more than a day", []string{"Retry-After: 999999999999999999999"}, 24 * time.Hour},
		{"not finite", []string{"Retry-After: NaN"}, time.Minute},
		{"infinite", []string{"Retry-After: Inf"}, time.Minute},
		{"a reset in the past", []string{"X-RateLimit-Reset: 1"}, time.Second},
		{"an infinite reset", []string{"X-RateLimit-Reset: +Inf"}, time.Minute},
	} {
		t.Run("RG-271 "+tt.name, func(t *testing.T) {
			t.Parallel()
			if got := retryDelay(headers(tt.header...), now); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	t.Run("RG-495 always within a second and a day", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			value := rapid.OneOf(rapid.String(), rapid.Map(rapid.Float64(), func(f float64) string { return fmt.Sprint(f) }), rapid.Map(rapid.Int64(), func(i int64) string { return fmt.Sprint(i) }))
			h := http.Header{}
			for _, name := range []string{"Retry-After", "X-Ratelimit-Reset", "X-Ratelimit-Remaining"} {
				if rapid.Bool().Draw(t, name) {
					h.Set(name, value.Draw(t, name))
				}
			}
			if d := retryDelay(h, now); d < time.Second || d > 24*time.Hour {
				t.Fatalf("%v gave %s", h, d)
			}
		})
	})
}

func TestGraphqlErrors(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		name, body string
		header     []string
		want       error
		kind       string
	}{
		{name: "no errors", body: `{"data":{}}`},
		{name: "RG-272 primary limit in a 200", body: `{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded for installation ID 11."}]}`, header: []string{"X-RateLimit-Remaining: 0"}, want: ErrRateLimited, kind: "primary"},
		{name: "RG-272 secondary limit in a 200", body: `{"errors":[{"message":"You have exceeded a secondary rate limit."}]}`, want: ErrRateLimited, kind: "secondary"},
		{name: "a permission", body: `{"data":{"repository":null},"errors":[{"type":"FORBIDDEN","path":["repository"],"message":"Resource not accessible by integration"}]}`, want: ErrForbidden},
		{name: "not found", body: `{"data":{"repository":null},"errors":[{"type":"NOT_FOUND","path":["repository"],"message":"Could not resolve to a Repository"}]}`, want: ErrNotFound},
		{name: "not found where that is an answer", body: `{"data":{"org":null},"errors":[{"type":"NOT_FOUND","path":["org"],"message":"Could not resolve to a Repository"}]}`},
		{name: "not found below it is an error", body: `{"data":{"org":{}},"errors":[{"type":"NOT_FOUND","path":["org","x"],"message":"Could not resolve"}]}`, want: ErrNotFound},
		{name: "an older server", body: `{"errors":[{"message":"Field 'x' doesn't exist on type 'Y'","extensions":{"code":"undefinedField"}}]}`, want: ErrInvalid},
		{name: "too many nodes", body: `{"errors":[{"type":"MAX_NODE_LIMIT_EXCEEDED","message":"x"}]}`, want: ErrTooLarge},
		{name: "a timeout", body: `{"errors":[{"message":"Something went wrong while executing your query."}]}`, want: ErrUnavailable},
		{name: "anything else, with data beside it", body: `{"data":{"repository":{}},"errors":[{"message":"hm"}]}`, want: ErrMalformed},
		{name: "an error that is no object", body: `{"errors":[7]}`, want: ErrMalformed},
		{name: "not an object", body: `[]`, want: ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := graphqlErrors(call{op: "test", installation: 11, tolerated: []string{"org"}}, answer{status: 200, header: headers(tt.header...), body: []byte(tt.body)}, now)
			if tt.want == nil && err != nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			var limit *RateLimitError
			if errors.As(err, &limit) && limit.Kind != tt.kind {
				t.Errorf("got kind %s", limit.Kind)
			}
		})
	}
}

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	t.Run("RG-496 at most 1000 characters, whatever GitHub says", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			message := strings.Repeat(rapid.StringN(1, 40, -1).Draw(t, "message"), rapid.IntRange(1, 400).Draw(t, "times"))
			body := fmt.Sprintf(`{"message":%s,"errors":[{"message":%s}]}`, strconv.QuoteToASCII(message), strconv.QuoteToASCII(message))
			err := classify(call{op: "test"}, answer{status: rapid.SampledFrom([]int{400, 403, 404, 422, 502}).Draw(t, "status"), body: []byte(body)}, time.Now())
			text := doing(doing(err, "%s", message), "%s", message).Error()
			if n := utf8.RuneCountInString(text); n > 1000 {
				t.Fatalf("%d characters", n)
			}
			if strings.ContainsAny(text, "\n\r\u2028\u202e") {
				t.Fatalf("more than a line: %q", text)
			}
		})
	})
	t.Run("credentials are redacted", func(t *testing.T) {
		t.Parallel()
		for _, secret := range []string{
			"ghs_16C7e42F292c6912E7710c838347Ae178B4a", "ghs_7_eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOjd9.c2ln-bmF0_dXJl", "v1.1f699f1069f60xxx"[:3] + "1f699f1069f60aaa1f699f1069f60bbb1f699f10",
			"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiI3In0.sig_nature-x", "github_pat_11ABCDEFG0aaaaaaaaaaaa", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
		} {
			if got := clip("before " + secret + " after"); got != "before [redacted] after" {
				t.Errorf("got %q", got)
			}
		}
	})
}
