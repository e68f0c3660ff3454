package policy

import _ "embed"

//go:embed schema/snapshot.schema.json
var snapshotSchema []byte

//go:embed schema/verdict.schema.json
var verdictSchema []byte

// SnapshotSchema is the JSON Schema (2020-12) of a snapshot's canonical form.
// DecodeSnapshot accepts a little more: a key that the schema requires may be
// left out, and then the fact is missing.
func SnapshotSchema() []byte { return append([]byte(nil), snapshotSchema...) }

// VerdictSchema is the JSON Schema (2020-12) of a verdict's canonical form.
func VerdictSchema() []byte { return append([]byte(nil), verdictSchema...) }
