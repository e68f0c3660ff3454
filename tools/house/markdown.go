package house

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// Link is one local link of a Markdown page: a path, an anchor, or both.
type Link struct {
	Line   int
	Target string // as written, without a title
}

var (
	inlineLink = regexp.MustCompile(`!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	refLink    = regexp.MustCompile(`^\s{0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s+"[^"]*")?\s*$`)
	codeSpan   = regexp.MustCompile("`[^`]*`")
	heading    = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	anchorTag  = regexp.MustCompile(`<a\s+(?:id|name)="([^"]+)"`)
)

// Links returns the local links of a page. Fenced code, code spans and links to other sites are left out.
func Links(page string) []Link {
	var out []Link
	prose(page, func(n int, line string) {
		line = codeSpan.ReplaceAllString(line, "")
		found := inlineLink.FindAllStringSubmatch(line, -1)
		found = append(found, refLink.FindAllStringSubmatch(line, -1)...)
		for _, m := range found {
			if u, err := url.Parse(m[1]); err == nil && u.Scheme == "" && u.Host == "" {
				out = append(out, Link{Line: n, Target: m[1]})
			}
		}
	})
	return out
}

// Anchors returns the anchors that GitHub gives to the headings of a page, and those it names itself.
func Anchors(page string) map[string]bool {
	out := map[string]bool{}
	prose(page, func(_ int, line string) {
		for _, m := range anchorTag.FindAllStringSubmatch(line, -1) {
			out[m[1]] = true
		}
		m := heading.FindStringSubmatch(line)
		if m == nil {
			return
		}
		slug := slugify(m[1])
		for n := 1; out[slug]; n++ {
			slug = fmt.Sprintf("%s-%d", slugify(m[1]), n)
		}
		out[slug] = true
	})
	return out
}

// slugify is GitHub's rule: lower case, punctuation dropped, spaces to hyphens.
func slugify(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}

// prose calls f for every line outside fenced code, counted from 1.
func prose(page string, f func(n int, line string)) {
	fence := ""
	for i, line := range strings.Split(page, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:3]
		default:
			f(i+1, line)
		}
	}
}

// CheckLinks returns one line for each local link of the Markdown pages below
// root that leads nowhere.
func CheckLinks(root string) ([]string, error) {
	pages := map[string]string{}
	err := Walk(root, func(p string) error {
		if !strings.HasSuffix(p, ".md") {
			return nil
		}
		body, err := os.ReadFile(filepath.Join(root, p))
		pages[p] = string(body)
		return err
	})
	if err != nil {
		return nil, err
	}
	var broken []string
	for _, p := range sortedKeys(pages) {
		for _, link := range Links(pages[p]) {
			if why := follow(root, pages, p, link.Target); why != "" {
				broken = append(broken, fmt.Sprintf("%s:%d: link to %s: %s", p, link.Line, link.Target, why))
			}
		}
	}
	return broken, nil
}

// follow returns why a link of the page leads nowhere, or nothing.
func follow(root string, pages map[string]string, page, target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return err.Error()
	}
	file := page
	if u.Path != "" {
		file = path.Join(path.Dir(page), u.Path)
		if strings.HasPrefix(u.Path, "/") {
			file = strings.TrimPrefix(u.Path, "/")
		}
		if strings.HasPrefix(file, "../") {
			return "leaves the repository"
		}
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			return "no such file"
		}
	}
	if u.Fragment == "" || !strings.HasSuffix(file, ".md") {
		return ""
	}
	if !Anchors(pages[file])[u.Fragment] {
		return "no such heading"
	}
	return ""
}

var (
	namedTest = regexp.MustCompile("`([a-z][a-z0-9/]*) ((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
)

// CheckNamedTests returns one line for each test that a page names, as in
// `pkg/store TestClaim`, and that does not exist: a guard that somebody relies on must not vanish unnoticed.
func CheckNamedTests(root string) ([]string, error) {
	defined := map[string]bool{} // "dir TestName"
	pages := map[string]string{}
	err := Walk(root, func(p string) error {
		if !strings.HasSuffix(p, ".md") && !strings.HasSuffix(p, "_test.go") {
			return nil
		}
		body, err := os.ReadFile(filepath.Join(root, p))
		if err != nil {
			return err
		}
		if strings.HasSuffix(p, ".md") {
			pages[p] = string(body)
			return nil
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(body), -1) {
			defined[path.Dir(p)+" "+m[1]] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var broken []string
	for _, p := range sortedKeys(pages) {
		prose(pages[p], func(n int, line string) {
			for _, m := range namedTest.FindAllStringSubmatch(line, -1) {
				if !defined[m[1]+" "+m[2]] {
					broken = append(broken, fmt.Sprintf("%s:%d: %s has no %s", p, n, m[1], m[2]))
				}
			}
		})
	}
	return broken, nil
}
