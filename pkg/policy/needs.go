package policy

// Requirements are facts that must still be read from GitHub before a verdict
// can rest on them. All slices are sorted and hold each entry once.
type Requirements struct {
	// Teams, each with the team's permission on the repository.
	Teams []TeamKey `json:"teams,omitempty"`
	// TeamSizes are teams whose number of active members is wanted too.
	TeamSizes []TeamKey `json:"team_sizes,omitempty"`
	// Memberships of people whose approval could count.
	Memberships []MembershipKey `json:"memberships,omitempty"`
	// Users are logins whose permission on the repository is wanted.
	Users []string `json:"users,omitempty"`
	// Apps are bot logins ("slug[bot]") whose identity is wanted.
	Apps []string `json:"apps,omitempty"`
	// Comments, LastPushers, BaseChanges and FileContents are numbers of pull
	// requests for which that fact is wanted. FileContents asks for Before and
	// After of every changed file at the current head.
	Comments     []int `json:"comments,omitempty"`
	LastPushers  []int `json:"last_pushers,omitempty"`
	BaseChanges  []int `json:"base_changes,omitempty"`
	FileContents []int `json:"file_contents,omitempty"`
	// OlderHeads asks for what a pull request changed at an older head, with
	// content.
	OlderHeads []OlderHeadKey `json:"older_heads,omitempty"`
}

// TeamKey names a team; both parts are lower case. String is the key of
// Snapshot.Teams and Snapshot.Memberships.
type TeamKey struct {
	Org  string `json:"org"`
	Slug string `json:"slug"`
}

func (k TeamKey) String() string { return k.Org + "/" + k.Slug }

// MembershipKey names one person in one team; all parts are lower case.
type MembershipKey struct {
	Team  TeamKey `json:"team"`
	Login string  `json:"login"`
}

// OlderHeadKey names an older head of a pull request.
type OlderHeadKey struct {
	Pull int    `json:"pull"`
	SHA  string `json:"sha"`
}

// Empty reports whether nothing is wanted.
func (r Requirements) Empty() bool {
	return len(r.Teams)+len(r.TeamSizes)+len(r.Memberships)+len(r.Users)+len(r.Apps)+
		len(r.Comments)+len(r.LastPushers)+len(r.BaseChanges)+len(r.FileContents)+len(r.OlderHeads) == 0
}
