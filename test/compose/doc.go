// Package compose holds deploy/compose.yaml to what it promises, with the library that Compose v2 reads it with; no engine
// is needed. What it says when it runs is shown by `make containers` (test/containers).
package compose
