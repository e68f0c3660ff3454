package hook

// Fence names one protection that a chaos build can remove.
type Fence string

// The fences, each with the place that holds it. docs/reliability.md says which run finds its removal.
const (
	// Lease: a claim excludes other claimants, and later writes repeat its token (pkg/store).
	Lease Fence = "lease"
	// HeadGeneration: a publication is for the head's current generation (pkg/store, fences).
	HeadGeneration Fence = "head_generation"
	// PullGeneration: the captured rows are the current ones (pkg/store, fences).
	PullGeneration Fence = "pull_generation"
	// Invalidated: the generation's revocation was proved before anything is published for it (pkg/store, claim and fences).
	Invalidated Fence = "invalidated"
	// Epoch: work of an older authority epoch does not publish (pkg/store, fences).
	Epoch Fence = "epoch"
	// AuthorityPending: nothing is published while relevant authority work waits (pkg/store, fences).
	AuthorityPending Fence = "authority_pending"
	// Guard: one writer a head, and authority events wait for writers (pkg/store).
	Guard Fence = "guard"
	// RunBinding: a run belongs to a head generation, and a write that may still arrive replaces the run (P1; pkg/store, pkg/checkrun).
	RunBinding Fence = "run_binding"
	// Proof: a reset is read back, not assumed (P2; pkg/checkrun).
	Proof Fence = "proof"
	// OneHead: the snapshot covers every open pull request of the head (P4; services/evaluator).
	OneHead Fence = "one_head"
	// Watermark: a read that is older than what the trigger promised is no evidence (P5; services/evaluator).
	Watermark Fence = "watermark"
	// Recheck: a success is looked at once more (P5; services/evaluator).
	Recheck Fence = "recheck"
	// Candidates: pull requests we have seen on a head count though GitHub does not list them (P6; services/invalidator, services/evaluator).
	Candidates Fence = "candidates"
	// Leaving: a head that was left is revoked (P7; pkg/store).
	Leaving Fence = "leaving"
	// PageFence: a page of a fan-out is recorded only under its lease (pkg/store).
	PageFence Fence = "page_fence"
	// Cursor: a pass goes on where it was interrupted and not behind it (P8; pkg/store).
	Cursor Fence = "cursor"
	// FinalRead: what the snapshot was made from is compared once more inside the guard (fence 1; pkg/checkrun).
	FinalRead Fence = "final_read"
	// Intent: nothing is published past an intent that never settled (P1; pkg/store, services/evaluator).
	Intent Fence = "intent"
	// Undo: an uncertain publication is set back (pkg/checkrun).
	Undo Fence = "undo"
	// RowGeneration: completing older work leaves newer work alone (I5; pkg/store).
	RowGeneration Fence = "row_generation"
	// Commit: a webhook is answered after its commit (I1; services/ingress).
	Commit Fence = "commit"
)
