// Package localpg runs a private PostgreSQL server for `countersign dev`, for
// the tests and for nothing else. Production brings its own database.
//
// # What it owns
//
// One server process, one database cluster and one socket directory a Server.
// It finds the server's binaries (see [Find]), creates the cluster on first use, listens on a Unix socket
// only (unless Options.Port asks for loopback too), and takes everything down
// with the program that started it: on Linux the kernel signals the server
// when its parent dies, so that `kill -9` of a test leaves no server behind.
//
// # What it guarantees
//
//   - It never talks to a server it did not start: the socket lies in a
//     directory only the server's user (and root) can enter, and the libpq
//     variables of the caller (PGHOST, PGDATA and their kin) reach neither
//     initdb nor the server.
//   - It works as root. initdb and postgres refuse root, therefore both then run
//     as the user postgres or, where there is none, nobody.
//   - A cluster is complete or absent: initdb works in data.new, which is renamed
//     to data when it is finished.
//   - One owner a directory: a second Start on it fails with [ErrInUse].
//
// # What it does not check
//
// Whether the cluster holds a schema (pkg/store migrates), and whether the disk
// survives a power cut: without Options.Sync nothing is flushed, which is right
// for a test and wrong for everything else.
//
// # Order of writes, and a crash after each
//
//  1. the directory and its owner lock: a crash leaves an empty directory, which
//     the next Start takes over;
//  2. data.new, by initdb: a crash leaves data.new, which the next Start removes;
//  3. the rename to data: from here on the cluster is complete;
//  4. the server: a crash leaves postmaster.pid, which PostgreSQL itself judges
//     and replaces on the next start, after its ordinary recovery.
//
// A temporary directory whose owner died before Stop is removed by the next
// Start that uses a temporary directory.
package localpg
