package githubsim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ReviewOf describes a review to submit.
type ReviewOf struct {
	User   string // may be an App's bot, "slug[bot]"
	State  string // APPROVED, CHANGES_REQUESTED, COMMENTED or PENDING
	Body   string
	Commit string // "": the present head
}

// Review submits a review of the present head and returns its id. An author
// cannot approve or request changes on their own pull request.
func (s *Sim) Review(fullName string, number int, user, state string) (id int64, err error) {
	return s.SubmitReview(fullName, number, ReviewOf{User: user, State: state})
}

// SubmitReview is Review with every detail.
func (s *Sim) SubmitReview(fullName string, number int, v ReviewOf) (id int64, err error) {
	err = s.onPull(fullName, number, v.User, func(m *mutation, r *repo, p *pull, by *account) error {
		id, err = m.review(r, p, by, v.State, v.Body, v.Commit)
		return err
	})
	return id, err
}

func (m *mutation) review(r *repo, p *pull, by *account, state, body, commitID string) (int64, error) {
	switch state {
	case "APPROVED", "CHANGES_REQUESTED", "COMMENTED", "PENDING":
	default:
		return 0, fmt.Errorf("review state %q: want APPROVED, CHANGES_REQUESTED, COMMENTED or PENDING", state)
	}
	if by.id == p.authorID && state == "APPROVED" {
		return 0, unprocessable("Can not approve your own pull request")
	}
	if by.id == p.authorID && state == "CHANGES_REQUESTED" {
		return 0, unprocessable("Can not request changes on your own pull request")
	}
	if state == "PENDING" && slices.ContainsFunc(p.reviews, func(v *review) bool { return v.userID == by.id && v.state == "PENDING" }) {
		return 0, unprocessable("User can only have one pending review per pull request")
	}
	v := &review{id: m.s.nextBigID(), userID: by.id, state: state, body: body, commitID: cmp.Or(commitID, p.headSHA), submittedAt: m.at}
	p.reviews = append(p.reviews, v)
	if state == "PENDING" {
		return v.id, nil
	}
	p.updatedAt = m.at
	m.answerRequests(p, v)
	m.emitReview(r, p, v, "submitted", by)
	return v.id, nil
}

// answerRequests takes the reviewer, and the teams asked for that the reviewer
// belongs to, out of the requested reviewers: such teams are onBehalfOf.
func (m *mutation) answerRequests(p *pull, v *review) {
	p.requestedUsers = slices.DeleteFunc(p.requestedUsers, func(id int64) bool { return id == v.userID })
	p.requestedTeams = slices.DeleteFunc(p.requestedTeams, func(id int64) bool {
		t := m.w.teams[id]
		if t == nil || m.w.teamMembers(t)[v.userID] == "" {
			return false
		}
		v.onBehalfOf = append(v.onBehalfOf, id)
		return true
	})
}

// DismissReview dismisses a review in place, keeping its id and time.
func (s *Sim) DismissReview(fullName string, number int, reviewID int64, by string) error {
	return s.onPull(fullName, number, by, func(m *mutation, r *repo, p *pull, by *account) error {
		return m.dismiss(r, p, reviewID, by)
	})
}

func (m *mutation) dismiss(r *repo, p *pull, reviewID int64, by *account) error {
	v := findReview(p, reviewID)
	if v == nil {
		return fmt.Errorf("no review %d on #%d", reviewID, p.number)
	}
	if v.state != "APPROVED" && v.state != "CHANGES_REQUESTED" {
		return unprocessable("Can not dismiss a " + strings.ToLower(strings.ReplaceAll(v.state, "_", " ")) + " pull request review")
	}
	v.state, p.updatedAt = "DISMISSED", m.at
	m.emitReview(r, p, v, "dismissed", by)
	return nil
}

func findReview(p *pull, id int64) *review {
	i := slices.IndexFunc(p.reviews, func(v *review) bool { return v.id == id })
	if i < 0 {
		return nil
	}
	return p.reviews[i]
}

// EditReview changes the body of a review; state and time stay.
func (s *Sim) EditReview(fullName string, number int, reviewID int64, body string) error {
	return s.onPull(fullName, number, "", func(m *mutation, r *repo, p *pull, _ *account) error {
		v := findReview(p, reviewID)
		if v == nil {
			return fmt.Errorf("no review %d on #%d", reviewID, p.number)
		}
		was := v.body
		v.body, p.updatedAt = body, m.at
		by := m.w.accounts[v.userID]
		if by == nil {
			by = m.w.accounts[r.ownerID]
		}
		m.emitReviewEdited(r, p, v, was, by)
		return nil
	})
}

// RequestReview asks users and teams (by slug) for a review.
func (s *Sim) RequestReview(fullName string, number int, users, teams []string, by string) error {
	return s.onPull(fullName, number, by, func(m *mutation, r *repo, p *pull, by *account) error {
		return m.requestReview(r, p, users, teams, by)
	})
}

func (m *mutation) requestReview(r *repo, p *pull, users, teams []string, by *account) error {
	notCollaborator := unprocessableMessage(fmt.Sprintf("Reviews may only be requested from collaborators. One or more of the users or teams you specified is not a collaborator of the %s repository.", m.w.fullName(r)))
	var ids, teamIDs []int64
	for _, login := range users {
		u := m.w.account(login)
		if u != nil && u.id == p.authorID {
			return unprocessableMessage("Review cannot be requested from pull request author.")
		}
		if u == nil || m.w.userPermission(r, u.id) == "" {
			return notCollaborator
		}
		ids = append(ids, u.id)
	}
	for _, slug := range teams {
		t := m.w.teamBySlug(r.ownerID, slug)
		if t == nil || m.w.teamPermission(t, r.id) == "" {
			return notCollaborator
		}
		teamIDs = append(teamIDs, t.id)
	}
	for _, id := range ids {
		if !slices.Contains(p.requestedUsers, id) {
			p.requestedUsers = append(p.requestedUsers, id)
			m.emitPull(r, p, "review_requested", by, obj{"requested_reviewer": userRef(id)})
		}
	}
	for _, id := range teamIDs {
		if !slices.Contains(p.requestedTeams, id) {
			p.requestedTeams = append(p.requestedTeams, id)
			m.emitPull(r, p, "review_requested", by, obj{"requested_team": teamRef(id)})
		}
	}
	p.updatedAt = m.at
	return nil
}

// RemoveReviewRequest takes a user out of the requested reviewers.
func (s *Sim) RemoveReviewRequest(fullName string, number int, user, by string) error {
	return s.onPull(fullName, number, by, func(m *mutation, r *repo, p *pull, by *account) error {
		u, err := m.user(user)
		if err != nil {
			return err
		}
		p.requestedUsers = slices.DeleteFunc(p.requestedUsers, func(id int64) bool { return id == u.id })
		p.updatedAt = m.at
		m.emitPull(r, p, "review_request_removed", by, obj{"requested_reviewer": userRef(u.id)})
		return nil
	})
}
