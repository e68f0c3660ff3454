// Package staging makes the secrets of a Countersign that runs in containers on one host (deploy/compose.yaml), and hands
// each container its own.
//
// # What it owns
//
// A directory "kept", which is the truth: every secret that was made, one file each. And below "out" one directory a
// container (Holders): those files that it reads and no other's, with the owner and mode it can read them with. An
// operator's own files (the App's key, the webhook secrets, an authority's certificate) are taken from "given".
//
// # What it guarantees
//
// What was made once is never made anew: a second run changes nothing, and hands out what is kept. A file appears whole
// (written beside and renamed). A given file wins over a made one at every run, which is how a secret is rotated. ingress
// gets no GitHub key, and nobody another's database password or NATS seed. No secret is in an error or in the output.
//
// # What it does not check
//
// Whether a given file is a good secret: the service that reads it refuses to start otherwise. Whether Postgres has the
// passwords: `countersign database migrate --role-passwords` brings them there.
//
// # Order of writes, and a crash after each
//
// kept, then out, file by file. After a crash the next run makes what is missing; what is kept is used, so that a password
// that Postgres already has is not lost.
package staging
