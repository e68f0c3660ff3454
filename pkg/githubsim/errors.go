package githubsim

import "fmt"

// misuse ends the program over a mistake in a scenario or in this package's own
// data: a world that is wrong as it is written cannot be tested on.
func misuse(format string, a ...any) {
	panic(fmt.Sprintf("githubsim: "+format, a...)) //nolint:forbidigo // a programmer's error, met when the world is built
}

// refusal is an answer of GitHub that is not a success. As an error of a Go
// method it reads like GitHub's message.
type refusal struct {
	status  int
	message string
	errors  any // nil, or a list of strings or objects
	docs    string
	bare    bool // no "status" in the body: an older shape
}

func (e *refusal) Error() string {
	if e.errors != nil {
		return fmt.Sprintf("github answers %d %s: %v", e.status, e.message, e.errors)
	}
	return fmt.Sprintf("github answers %d %s", e.status, e.message)
}

const docsRoot = "https://docs.github.com/rest"

func (e *refusal) body() obj {
	o := obj{"message": e.message, "documentation_url": docsRoot}
	if e.docs != "" {
		o["documentation_url"] = e.docs
	}
	if e.errors != nil {
		o["errors"] = e.errors
	}
	if !e.bare {
		o["status"] = fmt.Sprint(e.status)
	}
	return o
}

func refuse(status int, message string) *refusal { return &refusal{status: status, message: message} }

var (
	errNotFound      = refuse(404, "Not Found")
	errForbidden     = refuse(403, "Resource not accessible by integration")
	errBadCredential = refuse(401, "Bad credentials")
	errNoCredential  = refuse(401, "Requires authentication")
	errParse         = refuse(400, "Problems parsing JSON")
	errSuspended     = refuse(403, "This installation has been suspended")
)

// invalid is the first of the three shapes of 422: a list of fields.
func invalid(resource, field, code, message string) *refusal {
	e := obj{"resource": resource, "code": code}
	if field != "" {
		e["field"] = field
	}
	if message != "" {
		e["message"] = message
	}
	return &refusal{status: 422, message: "Validation Failed", errors: []obj{e}}
}

// unprocessable is the second shape: a list of sentences.
func unprocessable(sentence string) *refusal {
	return &refusal{status: 422, message: "Unprocessable Entity", errors: []string{sentence}}
}

// unprocessableMessage is a 422 with a message and no errors.
func unprocessableMessage(message string) *refusal { return refuse(422, message) }

// invalidRequest is the third shape: one text of everything that is wrong.
func invalidRequest(detail string) *refusal {
	return refuse(422, "Invalid request.\n\n"+detail)
}
