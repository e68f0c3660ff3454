// Package console shows people where their pull requests stand and why: a sixth service, which decides nothing.
//
// # What it owns
//
// Server-rendered pages (pull requests, one pull request, owners, operations, policy), their live updates by server-sent events, and
// people's sign-in with the App. It reads Postgres with a role that may write nothing, and holds no key of the App.
//
// # What it guarantees
//
// A page shows a repository only to somebody whom GitHub shows it, by GitHub's own answer within the last minutes; what may not be seen
// is answered as what does not exist, live updates included. Where GitHub cannot be asked, nothing is shown. Members of the operator team
// see everything. Every value of the outside is escaped, and control, format and direction characters are made visible: no text of a pull
// request can forge a part of a page. No script runs but the console's own file (a strict content security policy).
//
// # What it does not check
//
// That what it shows still holds: a page is the rows of its moment. A person who loses access is shown what they could see for at most
// the access cache's age. On a loopback address, with COUNTERSIGN_CONSOLE_OPEN, whoever can connect sees everything.
//
// # Order of writes
//
// There are none in the database. A session is a sealed cookie, so a crash loses nothing; every replica with the same session key can
// open it.
package console
