package interleave

// World is a bound that is explored whole, with a name for the documentation.
type World struct {
	Name string
	Config
}

// Worlds are the bounds under which the protocol must hold, for one position of GitHub's switch. small ones take a second.
func Worlds(github Switch) (small, large []World) {
	small = []World{
		{"never approved; a crash and a lost answer", Config{NeverApproved: true, Evaluators: 2, Faults: 1, Crashes: 1}},
		{"a dismissal; a lost answer", Config{Dismissal: true, Evaluators: 1, Faults: 1}},
		{"a dismissal; a crash", Config{Dismissal: true, Evaluators: 1, Crashes: 1}},
		{"a dismissal; a lie", Config{Dismissal: true, Evaluators: 1, Lies: 1}},
		{"a change of authority", Config{Removal: true, Evaluators: 1}},
		{"first run, fast path and a dismissal", Config{NoRun: true, Dismissal: true, FastPath: true, Evaluators: 1}},
	}
	large = []World{
		{"a dismissal; two evaluators, a lease lost alive, a crash", Config{Dismissal: true, Evaluators: 2, Crashes: 1, Expiries: 1}},
		{"a dismissal; two lost answers", Config{Dismissal: true, Evaluators: 1, Faults: 2}},
		{"a dismissal and the fast path; a crash and a lost answer", Config{Dismissal: true, FastPath: true, Evaluators: 1, Faults: 1, Crashes: 1}},
		{"first run, fast path, a dismissal; a crash and a lost answer", Config{NoRun: true, Dismissal: true, FastPath: true, Evaluators: 1, Faults: 1, Crashes: 1}},
		{"a change of authority; a crash and a lost answer", Config{Removal: true, Evaluators: 1, Crashes: 1, Faults: 1}},
		{"a dismissal and a change of authority; two evaluators, a crash", Config{Dismissal: true, Removal: true, Evaluators: 2, Crashes: 1}},
	}
	for _, list := range [][]World{small, large} {
		for i := range list {
			list[i].GitHub = github
		}
	}
	return small, large
}

// Removal is an experiment: fences that are taken away together, and a world in which that is found out. Each set is minimal:
// with any of its members put back the same world is sound.
type Removal struct {
	Fences Fence
	World  Config
}

// Removals cover every fence but those of [Redundant].
func Removals() []Removal {
	dismissal := Config{Dismissal: true, Evaluators: 1, Faults: 1}
	crash := Config{Dismissal: true, Evaluators: 1, Crashes: 1}
	two := Config{NeverApproved: true, Evaluators: 2, Faults: 1, Crashes: 1}
	authority := Config{Removal: true, Evaluators: 1}
	lies := Config{Dismissal: true, Evaluators: 1, Lies: 1}
	return []Removal{
		{FenceLease, two},
		{FenceEndLeases | FenceHeadGeneration | FencePullGeneration, dismissal},
		{FenceClaimInvalidated, two},
		{FenceEpoch | FenceAuthority, authority},
		{FenceReplace, dismissal},
		{FenceIntent | FenceRevokeFirst, crash},
		{FenceHeadGuard, Config{NoRun: true, Dismissal: true, FastPath: true, Evaluators: 1}},
		{FenceScopeGuard, authority},
		{FenceAfter, dismissal},
		{FenceResetReadBack, Config{Dismissal: true, Evaluators: 1, GitHub: Ignores}},
		{FenceWriteReadBack | FenceDrift, lies},
		{FenceWholeHead, two},
		{FenceIntentFirst, dismissal},
		{FenceUndo, Config{Dismissal: true, Evaluators: 1}},
		{FenceRevocation, dismissal},
		{FenceDrift, dismissal},
		{FenceDriftAdopts, two},
	}
}

// Redundant fences never decide alone in this model: whatever they refuse, others refuse too. They stay, because the model is
// smaller than the world.
const Redundant = FenceInvalidated | FenceRunBinding
