package policy

// contentCache holds what the pull request changes, path by path, at the
// current head and at older ones.
type contentCache struct{}

// contentStable says whether an approval of an older head still counts for the
// group (policy [approvals] content_stable). The default is no (RG-331).
func (j *judgement) contentStable(c candidate) standing {
	return refuse(CodeStaleApproval, "%s approved an older commit", c.login)
}
