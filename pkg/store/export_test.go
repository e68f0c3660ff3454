package store

// ClaimStatements are the statements that draw from a queue, for the tests of their plans.
var ClaimStatements = map[string]string{
	"invalidation": claimInvalidationSQL,
	"evaluation":   claimEvaluationSQL(),
	"authority":    claimAuthoritySQL(),
}

// SeenPullsSQL is what a test explains.
const SeenPullsSQL = seenPullsSQL
