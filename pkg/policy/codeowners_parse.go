package policy

import "strings"

// codeownersParser reads a file line by line into rules and faults. Owners and
// patterns are parts of the file's text; the owners of many rules share memory.
type codeownersParser struct {
	file   *Codeowners
	owners []Owner
	found  []Owner
	shape  patternShape
	line   int
	// lineStart and lineEnd bound the current line, without its end.
	lineStart, lineEnd int
}

// utf8BOM is skipped at the start of a file, as git skips it in .gitignore.
const utf8BOM = "\ufeff"

func (p *codeownersParser) parse() {
	text := p.file.text
	p.reserve()
	start := 0
	if strings.HasPrefix(text, utf8BOM) {
		start = len(utf8BOM)
	}
	for start < len(text) {
		end := len(text)
		if n := strings.IndexByte(text[start:], '\n'); n >= 0 {
			end = start + n
		}
		p.line++
		p.lineStart, p.lineEnd = start, end
		if end > start && text[end-1] == '\r' {
			p.lineEnd--
		}
		p.parseLine()
		start = end + 1
	}
}

// reserve makes room at once for what a file of this look usually needs. It is
// never more than a few times the size of the text.
func (p *codeownersParser) reserve() {
	const shortRule = 16
	text := p.file.text
	rules := min(strings.Count(text, "\n"), len(text)/shortRule) + 1
	p.file.rules = make([]CodeownersRule, 0, rules)
	p.file.starts = make([]uint32, 0, rules)
	p.file.index.reserve(rules+min(strings.Count(text, "/"), 8*rules)/3, len(text)/4)
}

// parseLine reads "pattern owner…", each but the first optional, and a comment
// from the first token that starts with "#" (RG-320).
func (p *codeownersParser) parseLine() {
	start, end := p.token(p.lineStart, true)
	if start == end {
		return
	}
	text := p.file.text
	pattern := text[start:end]
	patternStart, faults := start, len(p.file.problems)
	if fault := p.shape.parse(pattern); fault != faultNone {
		p.fault(fault, start, end)
		if fault == faultEscapedHash {
			return // what follows is a comment
		}
	}
	p.found = p.found[:0]
	for {
		start, end = p.token(end, false)
		if start == end {
			break
		}
		p.addOwner(start, end)
	}
	if len(p.file.problems) > faults {
		return // as on GitHub, one fault skips the line
	}
	p.file.rules = append(p.file.rules, CodeownersRule{Line: p.line, Pattern: pattern, Owners: p.keepOwners()})
	p.file.starts = append(p.file.starts, uint32(patternStart))
	p.file.index.add(&p.shape, uint32(len(p.file.rules)))
}

// token returns the bounds of the next token at or after offset at; an empty one
// is the end of the line or a comment. In the pattern a backslash keeps the
// whitespace that follows it.
func (p *codeownersParser) token(at int, pattern bool) (start, end int) {
	text := p.file.text
	for at < p.lineEnd && isCodeownersSpace(text[at]) {
		at++
	}
	start = at
	if at < p.lineEnd && text[at] == '#' {
		return start, start
	}
	for at < p.lineEnd && !isCodeownersSpace(text[at]) {
		if pattern && text[at] == '\\' && at+1 < p.lineEnd {
			at++
		}
		at++
	}
	return start, at
}

func isCodeownersSpace(c byte) bool {
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'
}

func (p *codeownersParser) addOwner(start, end int) {
	owner, valid := ParseOwner(p.file.text[start:end])
	if !valid {
		p.fault(faultOwner, start, end)
		return
	}
	p.found = append(p.found, owner)
}

// keepOwners moves the owners of a line to memory of their own, without
// duplicates. Short lists are compared pairwise; a line can hold a million.
func (p *codeownersParser) keepOwners() []Owner {
	if len(p.found) == 0 {
		return nil
	}
	const few = 16
	if len(p.found) > few {
		return dedupeOwners(p.found)
	}
	if cap(p.owners)-len(p.owners) < len(p.found) {
		p.owners = make([]Owner, 0, max(1024, len(p.found)))
	}
	first := len(p.owners)
next:
	for _, owner := range p.found {
		for _, earlier := range p.owners[first:] {
			if earlier == owner {
				continue next
			}
		}
		p.owners = append(p.owners, owner)
	}
	return p.owners[first:len(p.owners):len(p.owners)]
}

func dedupeOwners(found []Owner) []Owner {
	seen := make(map[Owner]struct{}, len(found))
	var kept []Owner
	for _, owner := range found {
		if _, twice := seen[owner]; !twice {
			seen[owner] = struct{}{}
			kept = append(kept, owner)
		}
	}
	return kept
}

func (p *codeownersParser) fault(code faultCode, start, end int) {
	p.file.problems = append(p.file.problems, codeownersFault{
		code: code, line: uint32(p.line),
		lineStart: uint32(p.lineStart), lineEnd: uint32(p.lineEnd), start: uint32(start), end: uint32(end),
	})
}
