package ghclient

import "errors"

// needed is the permission of the App that each read of evidence needs, as GitHub's settings pages call it.
var needed = map[operation]string{
	opEvidence: "Pull requests: read, with Contents: read", opPullState: "Pull requests: read", opReviews: "Pull requests: read",
	opChangedFiles: "Pull requests: read", opPull: "Pull requests: read", opOpenPulls: "Pull requests: read", opPullsOfCommit: "Pull requests: read",
	opComments: "Pull requests: read", opBaseChange: "Pull requests: read",
	opFile: "Contents: read", opBlob: "Contents: read", opCodeownersErrors: "Contents: read", opCompare: "Contents: read", opTree: "Contents: read",
	opActivity: "Contents: read",
	opTeams:    "Members: read", opTeam: "Members: read", opTeamRepo: "Members: read", opTeamMembership: "Members: read", opTeamMembers: "Members: read",
	opRepository: "Metadata: read", opUserPermission: "Metadata: read", opUser: "Metadata: read",
	opFindRun: "Checks: read", opListRuns: "Checks: read", opGetRun: "Checks: read", opCreateRun: "Checks: write", opUpdateRun: "Checks: write",
}

// Refusal says what an answer of GitHub's meant in two parts: the permission that the refused request needs ("" where none is known),
// and GitHub's own words or ours about the answer, made safe to print ("" where err is not about an answer).
func Refusal(err error) (permission, text string) {
	var answer *apiError
	if !errors.As(err, &answer) {
		return "", ""
	}
	text = answer.text
	if text == "" && answer.cause != nil {
		text = clip(answer.cause.Error())
	}
	return needed[answer.op], text
}
