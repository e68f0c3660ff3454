package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/countersign/countersign/pkg/policy"
)

// Source is one file of the other tool, by its path in the repository.
type Source struct {
	Path string
	Text string
}

// File is one file of the result.
type File struct {
	Path string
	Text string
}

// Item is one thing that was said in a source, and what became of it.
type Item struct {
	// Path and Line are where it stands; Line 0 where that is not known.
	Path string `json:"path"`
	Line int    `json:"line,omitempty"`
	// What it is, in words.
	What string `json:"what"`
	// Why it was lost, and what to do instead; "" of what was carried over.
	Why string `json:"why,omitempty"`
	// Weakens: without it more would pass than before.
	Weakens bool `json:"weakens,omitempty"`
}

// Result is what a conversion came to.
type Result struct {
	Files   []File `json:"files"`
	Carried []Item `json:"carried"`
	Lost    []Item `json:"lost"`
	// Notes say what is meant otherwise than before, though nothing was lost.
	Notes []string `json:"notes"`
}

// Share is how much of what was said was carried over, 0 to 1; of nothing, 1.
func (r Result) Share() float64 {
	if n := len(r.Carried) + len(r.Lost); n > 0 {
		return float64(len(r.Carried)) / float64(n)
	}
	return 1
}

// Kind names a tool that can be converted from.
type Kind string

// The kinds.
const (
	Native          Kind = "native"
	PolicyBot       Kind = "policy-bot"
	CodeownersPlus  Kind = "codeowners-plus"
	ExtraCodeowners Kind = "extra-codeowners"
)

// Kinds lists them.
var Kinds = []Kind{Native, PolicyBot, CodeownersPlus, ExtraCodeowners}

// Convert reads the sources of one tool. Errors name the file and what is wrong with it; then there is no result.
func Convert(kind Kind, sources []Source) (Result, error) {
	readers := map[Kind]func([]Source, *Result) (draft, error){Native: fromNative, PolicyBot: fromPolicyBot, CodeownersPlus: fromCodeownersPlus, ExtraCodeowners: fromExtraCodeowners}
	read, ok := readers[kind]
	if !ok {
		return Result{}, fmt.Errorf("%q is no tool that can be converted from: use %v", string(kind), Kinds)
	}
	r := Result{Files: []File{}, Carried: []Item{}, Lost: []Item{}, Notes: []string{}}
	d, err := read(sources, &r)
	if err != nil {
		return Result{}, err
	}
	r.Files = append(r.Files, d.files()...)
	return r, r.check()
}

// check reads the result as Countersign does: a converter that writes what cannot be read has a fault of its own.
func (r *Result) check() error {
	for _, f := range r.Files {
		var problems []policy.FileProblem
		switch {
		case f.Path == codeownersPath:
			for _, p := range policy.ParseCodeowners(f.Path, []byte(f.Text)).Problems() {
				problems = append(problems, policy.FileProblem{Line: p.Line, Message: p.Message})
			}
		case policy.DetectPolicyKind([]byte(f.Text)) == "organization":
			_, problems = policy.ParseOrganizationPolicy(f.Path, []byte(f.Text))
		default:
			_, problems = policy.ParseRepositoryPolicy(f.Path, []byte(f.Text))
		}
		if len(problems) > 0 {
			p := problems[0]
			return fmt.Errorf("the result %s would have a mistake in line %d: %s; please report the input as a bug", f.Path, p.Line, p.Message)
		}
	}
	return nil
}

func (r *Result) carried(path string, line int, format string, args ...any) {
	r.Carried = append(r.Carried, Item{Path: path, Line: line, What: fmt.Sprintf(format, args...)})
}

func (r *Result) lost(path string, line int, weakens bool, what, why string, args ...any) {
	r.Lost = append(r.Lost, Item{Path: path, Line: line, What: what, Why: fmt.Sprintf(why, args...), Weakens: weakens})
}

func (r *Result) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(r.Notes, n) {
		r.Notes = append(r.Notes, n)
	}
}

const codeownersPath = ".github/CODEOWNERS"

// draft is what the result will say.
type draft struct {
	// codeowners are the lines of CODEOWNERS; nil leaves the file alone.
	codeowners []string
	// requirements are the entries of the policy.
	requirements []requirement
	// The table [approvals].
	contentStable, excludeAuthor, excludeLastPusher bool
	allowAuthor                                     bool
	comments                                        []string // of the policy file, above everything
	noPolicy                                        bool     // the files are in Result already
}

// requirement is one [[requirement]].
type requirement struct {
	name                             string
	paths, exclude, from, allOf, opt []string
	count                            int
	excludeAuthor                    bool
}

func (d draft) files() []File {
	var files []File
	if d.codeowners != nil {
		files = append(files, File{Path: codeownersPath, Text: strings.Join(d.codeowners, "\n") + "\n"})
	}
	if !d.noPolicy {
		files = append(files, File{Path: policy.PolicyPath, Text: d.policy()})
	}
	return files
}

func (d draft) policy() string {
	var b strings.Builder
	for _, c := range d.comments {
		fmt.Fprintf(&b, "# %s\n", oneLine(c))
	}
	b.WriteString("schema_version = 1\nenabled = true\n")
	if d.allowAuthor {
		b.WriteString("allow_author_as_codeowner = true\n")
	}
	if d.contentStable || d.excludeAuthor || d.excludeLastPusher {
		b.WriteString("\n[approvals]\n")
		for _, k := range []struct {
			name string
			on   bool
		}{{"content_stable", d.contentStable}, {"exclude_author", d.excludeAuthor}, {"exclude_last_pusher", d.excludeLastPusher}} {
			if k.on {
				b.WriteString(k.name + " = true\n")
			}
		}
	}
	names := map[string]int{}
	for _, r := range d.requirements {
		r.write(&b, names)
	}
	return b.String()
}

func (r requirement) write(b *strings.Builder, names map[string]int) {
	name := oneLine(r.name)
	if len(name) > 90 {
		name = strings.ToValidUTF8(name[:90], "")
	}
	if names[name]++; names[name] > 1 {
		name = fmt.Sprintf("%s (%d)", name, names[name])
	}
	fmt.Fprintf(b, "\n[[requirement]]\nname = %s\n", quote(name))
	for _, k := range []struct {
		name string
		list []string
	}{{"paths", r.paths}, {"exclude", r.exclude}, {"from", r.from}, {"all_of", r.allOf}, {"optional", r.opt}} {
		if len(k.list) > 0 {
			fmt.Fprintf(b, "%s = [%s]\n", k.name, quoteAll(unique(k.list)))
		}
	}
	if r.count > 0 {
		fmt.Fprintf(b, "count = %d\n", r.count)
	}
	if r.excludeAuthor {
		b.WriteString("exclude_author = true\n")
	}
}

// unique keeps the first of each, whatever its case: owners and labels ignore it, and of paths the first is enough only when equal.
func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return strings.Join(quoted, ", ")
}

// quote writes a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// oneLine keeps a comment or a name on its line.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f || r == 0x2028 || r == 0x2029 }), " ")
}

// ownerName is an owner as CODEOWNERS and a policy file write it; ok is false for what can be none.
func ownerName(s string) (string, bool) {
	o, ok := policy.ParseOwner(s)
	return strings.ToLower(o.String()), ok && o.Kind != policy.OwnerEmail
}
