package ghclient

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

func TestNextPage(t *testing.T) {
	t.Parallel()
	const asked = "https://api.test/repos/acme/shop/pulls?per_page=100&state=open"
	link := func(target string) []string {
		return []string{fmt.Sprintf(`<%s>; rel="next", <x>; rel="last"`, target)}
	}
	for _, tt := range []struct {
		name  string
		asked string
		link  []string
		page  int
		items int
		want  int
		bad   bool
	}{
		{name: "RG-409 the header decides though the page is short", link: link(asked + "&page=2"), page: 1, items: 3, want: 2},
		{name: "RG-409 the header ends the list though the page is full", link: []string{`<` + asked + `&page=1>; rel="prev"`}, page: 2, items: 100, want: 0},
		{name: "RG-410 another origin", link: link("https://evil.test/repos/acme/shop/pulls?per_page=100&state=open&page=2"), page: 1, items: 100, bad: true},
		{name: "RG-410 another scheme", link: link("http" + strings.TrimPrefix(asked, "https") + "&page=2"), page: 1, bad: true},
		{name: "RG-410 another port", link: link("https://api.test:8443/repos/acme/shop/pulls?per_page=100&state=open&page=2"), page: 1, bad: true},
		{name: "RG-410 credentials in the link", link: link("https://a:b@api.test/repos/acme/shop/pulls?per_page=100&state=open&page=2"), page: 1, bad: true},
		{name: "RG-410 another endpoint", link: link("https://api.test/repos/acme/shop/issues?per_page=100&state=open&page=2"), page: 1, bad: true},
		{name: "RG-410 another repository", link: link("https://api.test/repos/acme/other/pulls?per_page=100&state=open&page=2"), page: 1, bad: true},
		{name: "RG-410 a parameter less", link: link("https://api.test/repos/acme/shop/pulls?per_page=100&page=2"), page: 1, bad: true},
		{name: "RG-410 a parameter more", link: link(asked + "&page=2&base=x"), page: 1, bad: true},
		{name: "RG-410 a parameter twice", link: link(asked + "&page=2&state=open"), page: 1, bad: true},
		{name: "RG-410 a parameter changed", link: link("https://api.test/repos/acme/shop/pulls?per_page=100&state=closed&page=2"), page: 1, bad: true},
		{name: "RG-410 a page skipped", link: link(asked + "&page=3"), page: 1, bad: true},
		{name: "RG-410 the same page", link: link(asked + "&page=2"), page: 2, bad: true},
		{name: "RG-410 no page", link: link(asked), page: 1, bad: true},
		{name: "RG-410 two pages", link: link(asked + "&page=2&page=2"), page: 1, bad: true},
		{name: "RG-411 without the header a full page asks for one more", page: 1, items: 100, want: 2},
		{name: "RG-411 without the header a shorter page ends", page: 4, items: 99, want: 0},
		{name: "RG-411 without the header an empty page ends", page: 2, items: 0, want: 0},
		{name: "RG-414 not a Link header", link: []string{"next"}, page: 1, bad: true},
		{name: "RG-414 unclosed", link: []string{"<" + asked + `&page=2; rel="next"`}, page: 1, bad: true},
		{name: "RG-414 no relation", link: []string{"<" + asked + "&page=2>"}, page: 1, bad: true},
		{name: "RG-414 quote not closed", link: []string{"<" + asked + `&page=2>; rel="next`}, page: 1, bad: true},
		{name: "RG-414 two next links", link: []string{fmt.Sprintf(`<%s&page=2>; rel="next", <%s&page=3>; rel="next"`, asked, asked)}, page: 1, bad: true},
		{name: "RG-414 two headers with a next link each", link: []string{fmt.Sprintf(`<%s&page=2>; rel="next"`, asked), fmt.Sprintf(`<%s&page=2>; rel="next"`, asked)}, page: 1, bad: true},
		{name: "RG-414 page in other digits", link: link(asked + "&page=" + url.QueryEscape("２")), page: 1, bad: true},
		{name: "RG-414 page with a sign", link: link(asked + "&page=%2B2"), page: 1, bad: true},
		{name: "RG-414 alias by our id", link: link("https://api.test/repositories/101/pulls?per_page=100&state=open&page=2"), page: 1, want: 2},
		{name: "RG-414 alias by another id", link: link("https://api.test/repositories/102/pulls?per_page=100&state=open&page=2"), page: 1, bad: true},
		{name: "RG-414 alias with another rest", link: link("https://api.test/repositories/101/pulls/3/files?per_page=100&state=open&page=2"), page: 1, bad: true},
		{name: "RG-414 alias whose id is no number", link: link("https://api.test/repositories/1o1/pulls?per_page=100&state=open&page=2"), page: 1, bad: true},
		{name: "RG-414 alias under another base path", link: link("https://api.test/api/v3/repositories/101/pulls?per_page=100&state=open&page=2"), page: 1, bad: true},
		{name: "RG-414 alias on a server of one's own", asked: "https://host.test/api/v3/repos/acme/shop/pulls?per_page=100", link: link("https://host.test/api/v3/repositories/101/pulls?per_page=100&page=2"), page: 1, want: 2},
		{name: "RG-414 alias of a team", asked: "https://api.test/orgs/acme/teams/core/members?per_page=100", link: link("https://api.test/organizations/55/team/66/members?per_page=100&page=2"), page: 1, want: 2},
		{name: "RG-414 alias of a team with another rest", asked: "https://api.test/orgs/acme/teams/core/members?per_page=100", link: link("https://api.test/organizations/55/team/66/repos?per_page=100&page=2"), page: 1, bad: true},
		{name: "RG-414 a repository's alias for a team", asked: "https://api.test/orgs/acme/teams/core/members?per_page=100", link: link("https://api.test/repositories/101/members?per_page=100&page=2"), page: 1, bad: true},
		{name: "the relation's case and other parameters don't matter", link: []string{"<" + asked + `&page=2>; title="a, b"; REL=next`}, page: 1, want: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			from := tt.asked
			if from == "" {
				from = asked
			}
			u, err := url.Parse(from)
			if err != nil {
				t.Fatal(err)
			}
			got, err := nextPage(tt.link, u, tt.page, tt.items, aliases{repository: 101})
			if got != tt.want || (err != nil) != tt.bad {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}

func repositoryJSON(id int, name string) string {
	return fmt.Sprintf(`{"id":%d,"name":%q,"full_name":"acme/%s","owner":{"login":"acme","type":"Organization"},"archived":false,"private":true,"default_branch":"main"}`, id, name, name)
}

// repositoryPages serves total repositories; alter may change a page's count, items and header.
func repositoryPages(s *script, total int, alter func(page int, count *int, items *[]string, link *string)) {
	s.mux.HandleFunc("GET /installation/repositories", func(w http.ResponseWriter, r *http.Request) {
		page := max(1, atoi(r.URL.Query().Get("page")))
		var items []string
		for i := (page-1)*100 + 1; i <= min(total, page*100); i++ {
			items = append(items, repositoryJSON(i, "r"+strconv.Itoa(i)))
		}
		link, count := "", total
		if page*100 < total {
			link = fmt.Sprintf(`<%s/installation/repositories?per_page=100&page=%d>; rel="next"`, s.srv.URL, page+1)
		} else if page > 1 {
			link = fmt.Sprintf(`<%s/installation/repositories?per_page=100&page=%d>; rel="prev"`, s.srv.URL, page-1)
		}
		if alter != nil {
			alter(page, &count, &items, &link)
		}
		var header []string
		if link != "" {
			header = append(header, "Link: "+link)
		}
		write(w, 200, fmt.Sprintf(`{"total_count":%d,"repositories":[%s]}`, count, strings.Join(items, ",")), header...)
	})
}

func atoi(s string) int { n, _ := strconv.Atoi(s); return n }

func TestRepositories(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		total  int
		alter  func(page int, count *int, items *[]string, link *string)
		want   int
		pages  int
		failed bool
	}{
		{name: "RG-412 three pages", total: 250, want: 250, pages: 3},
		{name: "RG-412 without Link: a full page that satisfies the count ends", total: 100, want: 100, pages: 1, alter: func(_ int, _ *int, _ *[]string, l *string) { *l = "" }},
		{name: "RG-412 without Link: continues while the count is not satisfied", total: 250, want: 250, pages: 3, alter: func(_ int, _ *int, _ *[]string, l *string) { *l = "" }},
		{name: "RG-412 without Link: a short page that leaves the count unsatisfied", total: 50, failed: true, alter: func(_ int, c *int, _ *[]string, l *string) { *c = 60; *l = "" }},
		{name: "RG-412 the count changes", total: 250, failed: true, alter: func(p int, c *int, _ *[]string, _ *string) { *c += p }},
		{name: "RG-412 the count is negative", total: 1, failed: true, alter: func(_ int, c *int, _ *[]string, _ *string) { *c = -1 }},
		{name: "RG-412 fewer than counted", total: 250, failed: true, alter: func(_ int, c *int, _ *[]string, _ *string) { *c = 251 }},
		{name: "RG-412 more than counted", total: 250, failed: true, alter: func(_ int, c *int, _ *[]string, _ *string) { *c = 249 }},
		{name: "RG-413 an id twice", total: 2, failed: true, alter: func(_ int, _ *int, i *[]string, _ *string) { (*i)[1] = repositoryJSON(1, "other") }},
		{name: "RG-413 a name twice, in another case", total: 2, failed: true, alter: func(_ int, _ *int, i *[]string, _ *string) {
			(*i)[1] = strings.ReplaceAll(repositoryJSON(2, "r1"), "r1", "R1")
		}},
		{name: "RG-424 one malformed record fails the list", total: 3, failed: true, alter: func(_ int, _ *int, i *[]string, _ *string) { (*i)[2] = `{"id":"3"}` }},
		{name: "RG-426 archived is text", total: 1, failed: true, alter: func(_ int, _ *int, i *[]string, _ *string) {
			(*i)[0] = strings.Replace((*i)[0], `"archived":false`, `"archived":"false"`, 1)
		}},
		{name: "RG-426 id is true", total: 1, failed: true, alter: func(_ int, _ *int, i *[]string, _ *string) {
			(*i)[0] = strings.Replace((*i)[0], `"id":1,`, `"id":true,`, 1)
		}},
		{name: "RG-425 an archived repository is validated and listed", total: 1, want: 1, pages: 1, alter: func(_ int, _ *int, i *[]string, _ *string) {
			(*i)[0] = strings.Replace((*i)[0], `"archived":false`, `"archived":true`, 1)
		}},
		{name: "RG-425 a malformed archived repository fails the list", total: 1, failed: true, alter: func(_ int, _ *int, i *[]string, _ *string) {
			(*i)[0] = strings.Replace(strings.Replace((*i)[0], `"archived":false`, `"archived":true`, 1), `"name":"r1"`, `"name":null`, 1)
		}},
		{name: "RG-410 the next link leaves the list", total: 250, failed: true, alter: func(p int, _ *int, _ *[]string, l *string) {
			*l = strings.Replace(*l, "/installation/", "/user/", 1)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			repositoryPages(s, tt.total, tt.alter)
			got, err := s.client().Repositories(t.Context())
			if tt.failed {
				if !errors.Is(err, ErrMalformed) || got != nil {
					t.Fatalf("got %d repositories, %v", len(got), err)
				}
				return
			}
			if err != nil || len(got) != tt.want || s.seen("GET /installation/repositories") != tt.pages {
				t.Fatalf("got %d repositories in %d pages, %v", len(got), s.seen("GET /installation/repositories"), err)
			}
		})
	}
}

func installationJSON(id int, fields string) string {
	return fmt.Sprintf(`{"id":%d,"account":{"id":%d,"login":"org%d","type":"Organization"},"permissions":{"checks":"write"},"suspended_at":null%s}`, id, id, id, fields)
}

func TestInstallations(t *testing.T) {
	t.Parallel()
	good := installationJSON(1, "")
	for _, tt := range []struct {
		name  string
		items []string
		want  int
	}{
		{"RG-423 all well formed", []string{good, installationJSON(2, "")}, 2},
		{"RG-425 a suspended one is validated and listed", []string{good, strings.Replace(installationJSON(2, ""), "null", `"2026-01-02T03:04:05Z"`, 1)}, 2},
		{"RG-426 suspended_at with an offset", []string{strings.Replace(good, "null", `"2026-01-02T03:04:05+02:00"`, 1)}, 1},
		{"RG-423 one malformed record fails all", []string{good, `{"id":2}`}, -1},
		{"RG-425 a malformed suspended one fails all", []string{good, `{"id":2,"suspended_at":"2026-01-02T03:04:05Z"}`}, -1},
		{"RG-426 suspended_at without an offset", []string{strings.Replace(good, "null", `"2026-01-02T03:04:05"`, 1)}, -1},
		{"RG-426 suspended_at is a number", []string{strings.Replace(good, "null", `1767323045`, 1)}, -1},
		{"RG-426 suspended_at is absent", []string{strings.Replace(good, `,"suspended_at":null`, "", 1)}, -1},
		{"RG-426 id is true", []string{strings.Replace(good, `"id":1,"account"`, `"id":true,"account"`, 1)}, -1},
		{"RG-426 id is text", []string{strings.Replace(good, `"id":1,"account"`, `"id":"1","account"`, 1)}, -1},
		{"RG-426 id is a fraction", []string{strings.Replace(good, `"id":1,"account"`, `"id":1.5,"account"`, 1)}, -1},
		{"RG-413 an id twice", []string{good, good}, -1},
		{"an enterprise has a slug", []string{`{"id":1,"account":{"id":5,"slug":"big"},"permissions":{},"suspended_at":null}`}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.answers("GET /app/installations", 200, "["+strings.Join(tt.items, ",")+"]")
			got, err := s.app().Installations(t.Context())
			if tt.want < 0 {
				if !errors.Is(err, ErrMalformed) || got != nil {
					t.Fatalf("got %d installations, %v", len(got), err)
				}
				if strings.Contains(err.Error(), "1767323045") || strings.Contains(err.Error(), "2026") {
					t.Errorf("RG-426: the value is repeated in %q", err)
				}
				return
			}
			if err != nil || len(got) != tt.want {
				t.Fatalf("got %d installations, %v", len(got), err)
			}
		})
	}
	t.Run("RG-423 a malformed record on the second page fails all", func(t *testing.T) {
		t.Parallel()
		s := newScript(t)
		s.mux.HandleFunc("GET /app/installations", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("page") == "2" {
				write(w, 200, `[{"id":0}]`)
				return
			}
			write(w, 200, "["+good+"]", fmt.Sprintf(`Link: <%s/app/installations?page=2&per_page=100>; rel="next"`, s.srv.URL))
		})
		if got, err := s.app().Installations(t.Context()); !errors.Is(err, ErrMalformed) || got != nil {
			t.Fatalf("got %v, %v", got, err)
		}
	})
}
