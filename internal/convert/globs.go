package convert

import (
	"regexp/syntax"
	"strings"
)

// globs turns a regular expression that is matched against a path, anywhere in it, into CODEOWNERS patterns that match the same
// paths; ok is false where it cannot be done.
func globs(expression string) (patterns []string, ok bool) {
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, false
	}
	texts, ok := alternatives(tree.Simplify())
	if !ok || len(texts) > 50 {
		return nil, false
	}
	for _, t := range texts {
		p, ok := pattern(t)
		if !ok {
			return nil, false
		}
		patterns = append(patterns, p...)
	}
	return patterns, true
}

// The tokens between which text stands. They cannot be in a path pattern.
const (
	tokenBegin = "\x01" // ^
	tokenEnd   = "\x02" // $
	tokenAny   = "\x03" // .*
	tokenName  = "\x04" // [^/]*
	tokenOne   = "\x05" // . which is ? here, but that it is no /
)

// alternatives gives the texts that the expression stands for, with tokens where something may vary.
func alternatives(re *syntax.Regexp) ([]string, bool) {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return []string{""}, true
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return nil, false
		}
		return []string{string(re.Rune)}, true
	case syntax.OpBeginText, syntax.OpBeginLine:
		return []string{tokenBegin}, true
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return []string{tokenOne}, true
	case syntax.OpEndText, syntax.OpEndLine:
		return []string{tokenEnd}, true
	case syntax.OpCapture:
		return alternatives(re.Sub[0])
	case syntax.OpStar, syntax.OpPlus:
		return repeated(re)
	case syntax.OpQuest:
		texts, ok := alternatives(re.Sub[0])
		return append([]string{""}, texts...), ok
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			texts, ok := alternatives(sub)
			if !ok {
				return nil, false
			}
			all = append(all, texts...)
		}
		return all, true
	case syntax.OpConcat:
		return joined(re.Sub)
	case syntax.OpCharClass:
		return classOf(re.Rune)
	}
	return nil, false
}

// classOf lists the characters of a small class.
func classOf(ranges []rune) ([]string, bool) {
	var all []string
	for i := 0; i+1 < len(ranges); i += 2 {
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			if all = append(all, string(r)); len(all) > 10 {
				return nil, false
			}
		}
	}
	return all, len(all) > 0
}

// repeated: .* crosses directories and [^/]* does not; .+ and [^/]+ differ from them by one character that nobody means.
func repeated(re *syntax.Regexp) ([]string, bool) {
	sub := re.Sub[0]
	for sub.Op == syntax.OpCapture {
		sub = sub.Sub[0]
	}
	switch {
	case sub.Op == syntax.OpAnyChar || sub.Op == syntax.OpAnyCharNotNL:
		return []string{tokenAny}, true
	case sub.Op == syntax.OpCharClass && len(sub.Rune) == 4 && sub.Rune[0] == 0 && sub.Rune[1] == '/'-1 && sub.Rune[2] == '/'+1:
		return []string{tokenName}, true
	}
	return nil, false
}

func joined(subs []*syntax.Regexp) ([]string, bool) {
	all := []string{""}
	for _, sub := range subs {
		texts, ok := alternatives(sub)
		if !ok || len(all)*len(texts) > 50 {
			return nil, false
		}
		var next []string
		for _, head := range all {
			for _, tail := range texts {
				next = append(next, head+tail)
			}
		}
		all = next
	}
	return all, true
}

// pattern is one alternative as CODEOWNERS writes it.
func pattern(t string) ([]string, bool) {
	anchored := strings.HasPrefix(t, tokenBegin)
	t = strings.TrimLeft(t, tokenBegin)
	open := !strings.HasSuffix(t, tokenEnd)
	t = strings.TrimRight(t, tokenEnd)
	for strings.HasPrefix(t, tokenAny) {
		anchored, t = false, strings.TrimPrefix(t, tokenAny) // ^.*x is x anywhere
	}
	for strings.HasSuffix(t, tokenAny) {
		open, t = true, strings.TrimSuffix(t, tokenAny)
	}
	if strings.ContainsAny(t, tokenBegin+tokenEnd+"*?[]\\! #\n\t") {
		return nil, false
	}
	if t == "" {
		return []string{"*"}, true
	}
	t = strings.ReplaceAll(t, tokenOne, "?")
	t = strings.ReplaceAll(t, "/"+tokenAny+"/", "/**/")
	switch {
	case anchored && open && strings.HasSuffix(t, "/"): // ^dir/.*
		return glued("/" + t)
	case anchored && open && !strings.Contains(t, tokenAny): // ^LICENSE also means LICENSE.txt and LICENSES/x
		p, ok := glued("/" + t + "*")
		if ok {
			p = append(p, p[0]+"/**")
		}
		return p, ok
	case anchored && !open: // ^dir/.*\.go$ and ^dir/file$
		return glued("/" + t)
	case !open && !strings.Contains(t, "/") && !strings.Contains(t, tokenAny): // \.go$
		return glued("*" + t)
	case !open && strings.HasPrefix(t, "/"): // /go\.mod$, in any directory but the root
		return glued("/**" + t)
	}
	return nil, false // a name in the middle of a path cannot be told from a part of a name
}

// glued resolves what is left: a name's rest within one directory, and any depth in front of the last name.
func glued(p string) ([]string, bool) {
	p = strings.ReplaceAll(p, tokenName, "*")
	if dir, rest, found := strings.Cut(p, tokenAny); found {
		// dir/.*\.go: any depth below dir, then a name that ends so.
		if !strings.HasSuffix(dir, "/") || strings.Contains(rest, "/") || strings.Contains(rest, tokenAny) {
			return nil, false
		}
		p = dir + "**/*" + rest
	}
	return []string{p}, true
}
