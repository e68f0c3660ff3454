// Package tools is the root of the module of development tools: what the
// Makefile runs (cmd/), what the continuous integration checks about the
// repository itself (house), and the versions of the linters and generators that are too
// dear to compile with everything else (versions.mk).
package tools
