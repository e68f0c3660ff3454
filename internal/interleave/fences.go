package interleave

// Fence is one thing the protocol relies on, which an experiment takes away. The numbers P1–P15 are those of the architecture
// page.
type Fence uint32

// The fences of a publication, the rules of a revocation, and what orders them.
const (
	FenceLease            Fence = 1 << iota // the evaluation lease's holder, in every statement that repeats it
	FenceEndLeases                          // an accepted change ends the leases of the older generation
	FenceHeadGeneration                     // the head's generation, in every statement that repeats it
	FenceClaimInvalidated                   // a claim passes over heads that are not revoked (P9)
	FenceInvalidated                        // the generation published is the one that was revoked
	FenceEpoch                              // rows of an older authority epoch never publish
	FenceAuthority                          // no authority work is pending at the write
	FencePullGeneration                     // the captured rows are still the newest
	FenceRunBinding                         // the run written is the one bound to the generation (P1)
	FenceReplace                            // an unconfirmed intent gets a new run, never a reset in place (P1)
	FenceIntent                             // nothing publishes over an unconfirmed intent
	FenceRevokeFirst                        // a claim that finds an unconfirmed intent sends the head back to its revocation
	FenceHeadGuard                          // one writer at a time on a head (fence 5)
	FenceScopeGuard                         // authority is accepted only while no write is under way (fence 5)
	FenceAfter                              // the fences are read again after GitHub's answer (fence 6)
	FenceResetReadBack                      // a reset counts when it was read back (P2)
	FenceWriteReadBack                      // a publication counts when it was read back
	FenceWholeHead                          // the snapshot covers every open pull request on the head (P4)
	FenceIntentFirst                        // the intent is recorded before the request (P11)
	FenceUndo                               // an uncertain write is set back before the guard is released
	FenceRevocation                         // an accepted change revokes: it raises the head's generation
	FenceDrift                              // the reconciler compares the run with the decision (P12)
	FenceDriftAdopts                        // … and the run it found is the one that counts from then on
)

// Fences are all of them, in the order above, by the names that docs/model.md uses.
func Fences() []NamedFence {
	names := []string{
		"evaluation lease", "acceptance ends leases", "head generation", "claim only what is revoked (P9)", "revoked generation at the write", "authority epoch",
		"no pending authority at the write", "pull request generation", "bound run (P1)",
		"new run after an unconfirmed intent (P1)", "no publication over an intent", "revoke first after an intent", "head guard",
		"scope guard", "fences again after the answer", "read-back of a reset (P2)", "read-back of a publication",
		"whole head in one snapshot (P4)", "intent before request (P11)", "undo before the guard is released", "acceptance revokes",
		"drift (P12)", "drift adopts the newest run",
	}
	list := make([]NamedFence, len(names))
	for i, name := range names {
		list[i] = NamedFence{Fence: 1 << i, Name: name}
	}
	return list
}

// Names lists the fences in f, by the names of Fences.
func (f Fence) Names() (names []string) {
	for _, n := range Fences() {
		if f&n.Fence != 0 {
			names = append(names, n.Name)
		}
	}
	return names
}

// NamedFence is a fence and its name in the documentation.
type NamedFence struct {
	Fence Fence
	Name  string
}

// Switch is how GitHub treats a PATCH of a completed run to in_progress; its documentation does not say.
type Switch uint8

// The three positions, as in the stand-in.
const (
	Complies Switch = iota
	Ignores         // answers 200 and changes nothing
	Refuses         // answers 422
)

// Config is one exploration: the world at the start, GitHub's switch, the fences taken away, and the budgets.
type Config struct {
	Without Fence
	GitHub  Switch
	// NeverApproved starts with a pull request that nobody approved: success must never appear.
	NeverApproved bool
	// NoRun starts with a head that has no check run yet.
	NoRun bool
	// Dismissal and Removal say which changes of evidence may happen.
	Dismissal, Removal bool
	// FastPath lets ingress ask for one reset beside the durable one.
	FastPath bool
	// Evaluators is 1 or 2.
	Evaluators int
	// Lies are answers of 200 to a PATCH that changed nothing.
	Crashes, Faults, Expiries, Lies uint8
	// SafetyOnly ignores what never settles, and asks only whether a wrong success can appear.
	SafetyOnly bool
	// Limit bounds the states; 0 means 20 million. Reaching it is an error.
	Limit int
}

func (c Config) has(f Fence) bool { return c.Without&f == 0 }

// Start is the first state: a head that was published under its first generation, or one that was never looked at.
func (c Config) Start() State {
	s := State{
		approved: [pulls]bool{true, !c.NeverApproved}, epoch: 1, pullGen: [pulls]uint8{1, 1},
		crashes: c.Crashes, faults: c.Faults, expiries: c.Expiries, lies: c.Lies, dismissal: done, removal: done,
	}
	if c.Dismissal {
		s.dismissal = notYet
	}
	if c.Removal {
		s.removal = notYet
	}
	s.head = head{generation: 1}
	for i := range s.rows {
		s.rows[i] = row{on: true, generation: 1, epoch: 1, at: 1}
	}
	if !c.NoRun { // an earlier generation was published: the old success is what an attacker wants to keep
		s.runs[0] = Run{Status: Success, Mark: 1}
		if c.NeverApproved {
			s.runs[0].Status = Failure
		}
		s.decisions = 1
		s.head = head{generation: 2, invalidated: 1, run: 1, runGeneration: 1, published: s.runs[0].Status, publishedGeneration: 1}
		for i := range s.rows {
			s.rows[i].at, s.rows[i].generation, s.pullGen[i] = 2, 2, 2
		}
	}
	return s
}
