# Linters and generators, pinned. They are installed into .cache/bin by `go
# install tool@version`, outside the workspace: as requirements of tools/go.mod
# they would drag several hundred modules into every build and raise the versions
# that the services are compiled with (docs/decisions/0008).
GOLANGCI_LINT_VERSION := v2.15.0
GOVULNCHECK_VERSION   := v1.9.0
BUF_VERSION           := v1.75.0
PROTOC_GEN_GO_VERSION := v1.36.12
