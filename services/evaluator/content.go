package evaluator

import (
	"context"
	"errors"
	"fmt"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/policy"
)

// The facts of the opt-in policies (D12, break-glass): asked for only where a policy file turns them on.

// pull finds a pull request of the snapshot; needs name no other.
func (c *collector) pull(number int) (*policy.PullRequest, ghclient.Pull, bool) {
	for i := range c.snapshot.Pulls {
		if c.snapshot.Pulls[i].Number == number {
			for _, p := range c.pulls {
				if p.Number == number {
					return &c.snapshot.Pulls[i], p, true
				}
			}
		}
	}
	return nil, ghclient.Pull{}, false
}

// readOptional answers what the opt-in policies ask for, one pull request after the other.
func (c *collector) readOptional(ctx context.Context, needs policy.Requirements) error {
	for _, ask := range []struct {
		numbers []int
		read    func(context.Context, *policy.PullRequest, ghclient.Pull) error
	}{
		{needs.Comments, c.readComments}, {needs.LastPushers, c.readLastPusher}, {needs.BaseChanges, c.readBaseChange}, {needs.FileContents, c.readContents},
	} {
		for _, n := range ask.numbers {
			if p, was, ok := c.pull(n); ok {
				if err := ask.read(ctx, p, was); err != nil {
					return fmt.Errorf("pull request %d: %w", n, err)
				}
			}
		}
	}
	c.contents = c.contents || len(needs.FileContents) > 0 || len(needs.OlderHeads) > 0
	for _, k := range needs.OlderHeads {
		if p, _, ok := c.pull(k.Pull); ok {
			if err := c.readOlderHead(ctx, p, k.SHA); err != nil {
				return fmt.Errorf("pull request %d at %s: %w", k.Pull, k.SHA, err)
			}
		}
	}
	return nil
}

// readComments: a conversation too long to read whole is unknown, and unknown releases nothing.
func (c *collector) readComments(ctx context.Context, p *policy.PullRequest, _ ghclient.Pull) error {
	comments, err := c.gh.Comments(ctx, c.repo, p.Number)
	if errors.Is(err, ghclient.ErrTooLarge) {
		p.Comments = policy.CommentList{State: policy.FactUnknown}
		return nil
	}
	if err != nil {
		return fmt.Errorf("list comments: %w", err)
	}
	p.Comments = policy.CommentList{State: policy.FactPresent}
	for _, x := range comments {
		p.Comments.Items = append(p.Comments.Items, policy.Comment{
			ID: x.ID, Author: actorOf(x.Author), Body: x.Body, CreatedAt: x.CreatedAt.UTC(), UpdatedAt: x.UpdatedAt.UTC(),
		})
	}
	return nil
}

// readLastPusher: where the head repository's log cannot be seen, who pushed is unknown, and everybody may have been (I6).
func (c *collector) readLastPusher(ctx context.Context, p *policy.PullRequest, was ghclient.Pull) error {
	push, err := c.gh.LastPush(ctx, was)
	switch {
	case errors.Is(err, ghclient.ErrNotFound), errors.Is(err, ghclient.ErrForbidden):
		p.LastPusher = policy.ActorFact{State: policy.FactUnknown}
	case err != nil:
		return fmt.Errorf("find the last pusher: %w", err)
	case actorOf(push.Actor) == nil:
		p.LastPusher = policy.ActorFact{State: policy.FactAbsent}
	default:
		p.LastPusher = policy.ActorFact{State: policy.FactPresent, Actor: actorOf(push.Actor)}
	}
	return nil
}

func (c *collector) readBaseChange(ctx context.Context, p *policy.PullRequest, _ ghclient.Pull) error {
	at, changed, err := c.gh.BaseChange(ctx, c.repo, p.Number)
	if err != nil {
		return fmt.Errorf("find the last change of base: %w", err)
	}
	p.BaseChange = policy.BaseChangeFact{State: policy.FactAbsent}
	if changed {
		p.BaseChange = policy.BaseChangeFact{State: policy.FactPresent, At: at.UTC()}
	}
	return nil
}

// readContents adds both sides of every changed path to the files GitHub listed.
func (c *collector) readContents(ctx context.Context, p *policy.PullRequest, _ ghclient.Pull) error {
	changes, err := c.gh.ChangedContent(ctx, c.repo, p.BaseSHA, p.HeadSHA)
	if errors.Is(err, ghclient.ErrTooLarge) || errors.Is(err, ghclient.ErrNotFound) {
		p.Files.ContentState = policy.FactUnknown
		return nil
	}
	if err != nil {
		return fmt.Errorf("compare trees: %w", err)
	}
	sides := make(map[string]ghclient.ContentChange, len(changes))
	for _, x := range changes {
		sides[x.Path] = x
	}
	for i := range p.Files.Items {
		f := &p.Files.Items[i]
		before := f.Path
		if f.Status == "renamed" {
			before = f.PreviousPath
		}
		f.Before, f.After = blobOf(sides[before].Before), blobOf(sides[f.Path].After)
	}
	p.Files.ContentState = policy.FactPresent
	return nil
}

func (c *collector) readOlderHead(ctx context.Context, p *policy.PullRequest, sha string) error {
	if p.OlderHeads == nil {
		p.OlderHeads = map[string]policy.FileList{}
	}
	changes, err := c.gh.ChangedContent(ctx, c.repo, p.BaseSHA, sha)
	switch {
	case errors.Is(err, ghclient.ErrNotFound):
		p.OlderHeads[sha] = policy.FileList{State: policy.FactAbsent}
		return nil
	case errors.Is(err, ghclient.ErrTooLarge):
		p.OlderHeads[sha] = policy.FileList{State: policy.FactUnknown}
		return nil
	case err != nil:
		return fmt.Errorf("compare trees: %w", err)
	}
	list := policy.FileList{State: policy.FactPresent, ContentState: policy.FactPresent}
	for _, x := range changes {
		f := policy.ChangedFile{Path: x.Path, Status: "modified", Before: blobOf(x.Before), After: blobOf(x.After)}
		switch {
		case x.Before == nil:
			f.Status = "added"
		case x.After == nil:
			f.Status = "removed"
		}
		list.Items = append(list.Items, f)
	}
	p.OlderHeads[sha] = list
	return nil
}

func blobOf(b *ghclient.Blob) *policy.Blob {
	if b == nil {
		return nil
	}
	return &policy.Blob{SHA: b.SHA, Mode: b.Mode}
}
