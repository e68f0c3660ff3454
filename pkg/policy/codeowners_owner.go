package policy

import "strings"

// OwnerKind says what an owner of a CODEOWNERS line is.
type OwnerKind uint8

// The kinds of owner. The zero kind is none of them.
const (
	OwnerUser  OwnerKind = iota + 1 // @login
	OwnerTeam                       // @organisation/team
	OwnerEmail                      // an e-mail address
)

// String returns "user", "team" or "email".
func (k OwnerKind) String() string {
	switch k {
	case OwnerUser:
		return "user"
	case OwnerTeam:
		return "team"
	case OwnerEmail:
		return "email"
	default:
		return "unknown"
	}
}

// Owner is one owner of a CODEOWNERS line. Two owners are the same if they are
// equal: the name is lower-cased, as GitHub compares logins, slugs and addresses
// without regard to case (RG-325).
type Owner struct {
	Kind OwnerKind
	// Name is without the "@": "login", "organisation/team" or the address.
	Name string
}

// String returns the owner as CODEOWNERS writes it.
func (o Owner) String() string {
	if o.Kind == OwnerUser || o.Kind == OwnerTeam {
		return "@" + o.Name
	}
	return o.Name
}

// ParseOwner reads an owner as CODEOWNERS writes it: "@login",
// "@organisation/team" or an address. It checks the form, never whether the owner
// exists.
func ParseOwner(text string) (Owner, bool) {
	name, at := strings.CutPrefix(text, "@")
	if !at {
		if !isEmailAddress(text) {
			return Owner{}, false
		}
		return Owner{Kind: OwnerEmail, Name: strings.ToLower(text)}, true
	}
	login, team, slash := strings.Cut(name, "/")
	switch {
	case !isLogin(login):
		return Owner{}, false
	case !slash:
		return Owner{Kind: OwnerUser, Name: strings.ToLower(name)}, true
	case !isTeamSlug(team):
		return Owner{}, false
	default:
		return Owner{Kind: OwnerTeam, Name: strings.ToLower(name)}, true
	}
}

// isLogin accepts letters, digits and inner hyphens, and one underscore before
// the short code that managed users of an enterprise carry. Old accounts have
// logins that end in a hyphen, so that is not held against a name.
func isLogin(s string) bool {
	if s == "" || !isASCIIAlnum(s[0]) {
		return false
	}
	underscores := 0
	for i := range len(s) {
		switch c := s[i]; {
		case isASCIIAlnum(c), c == '-':
		case c == '_' && i < len(s)-1:
			underscores++
		default:
			return false
		}
	}
	return underscores <= 1
}

// isTeamSlug accepts what GitHub makes of a team's name: letters, digits, "-" and
// "_", not hyphens alone.
func isTeamSlug(s string) bool {
	some := false
	for i := range len(s) {
		switch c := s[i]; {
		case isASCIIAlnum(c), c == '_':
			some = true
		case c == '-':
		default:
			return false
		}
	}
	return some
}

// isEmailAddress accepts a dot-atom, "@" and a host of at least two labels. A
// quoted local part or a literal host is no account's address on GitHub.
func isEmailAddress(s string) bool {
	local, host, ok := strings.Cut(s, "@")
	if !ok || !strings.Contains(host, ".") {
		return false
	}
	return everyDotPart(local, isMailboxByte) && everyDotPart(host, isHostByte) &&
		!strings.HasPrefix(host, "-") && !strings.HasSuffix(host, "-")
}

// everyDotPart reports whether s is one or more non-empty parts between dots,
// made of accepted bytes only.
func everyDotPart(s string, accepted func(byte) bool) bool {
	part := 0
	for i := range len(s) {
		switch {
		case s[i] == '.' && part > 0:
			part = 0
		case s[i] != '.' && accepted(s[i]):
			part++
		default:
			return false
		}
	}
	return part > 0
}

// isMailboxByte is RFC 5322's atext.
func isMailboxByte(c byte) bool {
	return isASCIIAlnum(c) || strings.IndexByte("!#$%&'*+-/=?^_`{|}~", c) >= 0
}

func isHostByte(c byte) bool { return isASCIIAlnum(c) || c == '-' }

func isASCIIAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
