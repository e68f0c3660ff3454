package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// ErrSnapshot is wrapped by every error of DecodeSnapshot.
var ErrSnapshot = errors.New("invalid snapshot")

// DecodeSnapshot reads the JSON form strictly. Unknown, repeated or upper-case
// keys, a wrong type, a state outside its set, another version and trailing
// data are errors that wrap ErrSnapshot and name the place.
func DecodeSnapshot(data []byte) (Snapshot, error) {
	if err := checkKeys(data); err != nil {
		return Snapshot{}, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	var s Snapshot
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		var badTime *time.ParseError
		if errors.As(err, &badTime) {
			return Snapshot{}, fmt.Errorf("%w: the time %q is not RFC 3339; write it as 2026-03-04T12:00:00Z", ErrSnapshot, clip(badTime.Value, 60))
		}
		return Snapshot{}, fmt.Errorf("%w: %s", ErrSnapshot, clip(err.Error(), 300))
	}
	if s.Version != SnapshotVersion {
		return Snapshot{}, fmt.Errorf("%w: version: %d is not supported; this build reads version %d", ErrSnapshot, s.Version, SnapshotVersion)
	}
	if err := s.checkStates(); err != nil {
		return Snapshot{}, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return s, nil
}

// checkKeys refuses what encoding/json lets pass: a key that is given twice
// (which of the two is evidence?), a key in another case, and more than one
// document.
func checkKeys(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := checkValue(decoder, nil, 0); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data follows the snapshot; give one JSON object")
	}
	return nil
}

// jsonPath is a place in a document; its text is made only for an error.
type jsonPath struct {
	parent *jsonPath
	key    string
	index  int // where key is empty
}

func (p *jsonPath) String() string {
	switch {
	case p == nil:
		return ""
	case p.key == "":
		return p.parent.String() + "[" + strconv.Itoa(p.index) + "]"
	default:
		return strings.TrimPrefix(p.parent.String()+"."+clip(p.key, 100), ".")
	}
}

// maxDepth is far above what a snapshot needs.
const maxDepth = 100

func checkValue(decoder *json.Decoder, path *jsonPath, depth int) error {
	token, err := decoder.Token()
	if err != nil {
		return tokenError(err)
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	if depth == maxDepth {
		return errors.New("the snapshot is nested too deeply")
	}
	seen := map[string]bool{}
	for i := 0; decoder.More(); i++ {
		here := &jsonPath{parent: path, index: i}
		if delim == '{' {
			if here.key, err = checkKey(decoder, seen, path); err != nil {
				return err
			}
		}
		if err := checkValue(decoder, here, depth+1); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return tokenError(err)
	}
	return nil
}

func checkKey(decoder *json.Decoder, seen map[string]bool, path *jsonPath) (string, error) {
	token, err := decoder.Token()
	if err != nil {
		return "", tokenError(err)
	}
	key, _ := token.(string)
	here := &jsonPath{parent: path, key: key}
	switch {
	case key == "":
		return "", fmt.Errorf("%s: a key is empty", path)
	case seen[key]:
		return "", fmt.Errorf("%s: the key is given twice; keep one", here)
	case key != strings.ToLower(key):
		return "", fmt.Errorf("%s: keys are lower case; write %s", here, strings.ToLower(clip(key, 100)))
	}
	seen[key] = true
	return key, nil
}

func tokenError(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("not valid JSON at byte %d: %s", syntax.Offset, clip(err.Error(), 200))
	}
	return fmt.Errorf("not valid JSON: %s", clip(err.Error(), 200))
}

// checkStates refuses a state outside its set: a misspelt state would silently
// mean "unknown".
func (s *Snapshot) checkStates() error {
	c := &stateCheck{}
	for i := range s.Unreadable {
		if _, known := unreadableMends[s.Unreadable[i].Code]; !known {
			c.add(fmt.Sprintf("unreadable[%d].code", i), string(s.Unreadable[i].Code), "the codes of unreadable evidence (docs/snapshot.md)")
		}
	}
	c.fact("pulls_state", s.PullsState)
	for i := range s.Pulls {
		c.pull(fmt.Sprintf("pulls[%d]", i), &s.Pulls[i])
	}
	for _, sha := range sortedKeys(s.Bases) {
		b, at := s.Bases[sha], "bases."+clip(sha, 64)
		c.fact(at+".codeowners.state", b.Codeowners.State)
		c.fact(at+".codeowners_errors.state", b.CodeownersErrors.State)
		c.fact(at+".policy.state", b.Policy.State)
		c.fact(at+".fallback_policy.state", b.FallbackPolicy.State)
	}
	c.fact("organization_policy.repository", s.OrganizationPolicy.Repository)
	c.fact("organization_policy.policy.state", s.OrganizationPolicy.Policy.State)
	c.fact("organization_policy.fallback_policy.state", s.OrganizationPolicy.FallbackPolicy.State)
	for _, key := range sortedKeys(s.Teams) {
		c.fact("teams."+clip(key, 100)+".state", s.Teams[key].State)
	}
	for _, team := range sortedKeys(s.Memberships) {
		for _, login := range sortedKeys(s.Memberships[team]) {
			switch m := s.Memberships[team][login]; m {
			case MembershipActive, MembershipNone, MembershipPending, MembershipUnknown:
			default:
				c.add("memberships."+clip(team, 100)+"."+clip(login, 100), string(m), "active, pending, none or unknown")
			}
		}
	}
	for _, key := range sortedKeys(s.Users) {
		c.fact("users."+clip(key, 100)+".state", s.Users[key].State)
	}
	for _, key := range sortedKeys(s.Apps) {
		c.fact("apps."+clip(key, 100)+".state", s.Apps[key].State)
	}
	switch s.Settings.MissingApproval {
	case "", LookFailure, LookActionRequired, LookPending:
	default:
		c.add("settings.missing_approval", string(s.Settings.MissingApproval), "failure, action_required or pending")
	}
	if g := s.MergeGroup; g != nil {
		c.fact("merge_group.state", g.State)
		c.fact("merge_group.queue_state", g.QueueState)
	}
	return c.err
}

// stateCheck keeps the first bad state.
type stateCheck struct{ err error }

func (c *stateCheck) add(path, got, want string) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: %q is none of %s", path, clip(got, 50), want)
	}
}

func (c *stateCheck) fact(path string, state FactState) {
	switch state {
	case FactMissing, FactUnknown, FactAbsent, FactPresent:
	default:
		c.add(path, string(state), "present, absent or unknown")
	}
}

func (c *stateCheck) pull(path string, p *PullRequest) {
	c.fact(path+".files.state", p.Files.State)
	c.fact(path+".files.content_state", p.Files.ContentState)
	c.fact(path+".reviews.state", p.Reviews.State)
	c.fact(path+".comments.state", p.Comments.State)
	c.fact(path+".last_pusher.state", p.LastPusher.State)
	c.fact(path+".base_change.state", p.BaseChange.State)
	for _, sha := range sortedKeys(p.OlderHeads) {
		at := path + ".older_heads." + clip(sha, 64)
		c.fact(at+".state", p.OlderHeads[sha].State)
		c.fact(at+".content_state", p.OlderHeads[sha].ContentState)
	}
}

// ErrVerdict is wrapped by every error of DecodeVerdict.
var ErrVerdict = errors.New("invalid verdict")

// DecodeVerdict reads the JSON form that Verdict.MarshalCanonical writes, for
// showing what was decided. It grants nothing by itself: with an error the
// verdict is the zero one, which blocks.
func DecodeVerdict(data []byte) (Verdict, error) {
	var v Verdict
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		return Verdict{}, fmt.Errorf("%w: %s", ErrVerdict, clip(err.Error(), 300))
	}
	if v.Version != VerdictVersion {
		return Verdict{}, fmt.Errorf("%w: version: %d is not supported; this build reads version %d", ErrVerdict, v.Version, VerdictVersion)
	}
	return v, nil
}
