# Countersign. `make` alone prints every target.
#
# Everything is compiled with one set of flags (GOFLAGS), so that nothing is
# compiled twice: a second set costs minutes.

include tools/versions.mk

export CGO_ENABLED ?= 1
BIN   := $(CURDIR)/.cache/bin
# The race detector is on for every test. Where GOFLAGS already says so (CI), the cache is shared with `make demo`.
# What `make conformance` reads is a whole run; a part of one is kept apart.
EVENTS = .cache/$(if $(filter-out work,$(PKG))$(RUN),part,test).json
RACE  := $(if $(findstring -race,$(GOFLAGS)),,-race)
TOOLS := $(BIN)/testpg $(BIN)/testrun $(BIN)/conformance $(BIN)/fuzz

# Tests always run (-count=1): those of the tools module read files of other modules, which go's
# test cache does not watch.

# promtool and prometheus: what is in PATH, otherwise unpacked here.
PROMETHEUS := $(CURDIR)/.cache/prometheus
PROMETHEUS_URL ?= http://127.0.0.1:9090
PROMTOOL   := $(or $(shell command -v promtool),$(PROMETHEUS)/promtool)

# Variables that a caller may set.
PKG      ?= work
ARGS     ?=
COUNT    ?= 10
RUN      ?=
FUZZTIME ?= 10s
BENCH    ?= .
SEED     ?= 0
N        ?= 10
PARALLEL ?= 4
VERSION  ?= devel
ARCH     ?=

.DEFAULT_GOAL := help
.PHONY: man chaos-processes chaos fences help build test race lint vet house generate verify fuzz bench bench-ingest bench-settle bench-codeowners bench-console browser conformance contract model mutants demo images images-offline containers proto vuln tidy clean tools rules helm dashboards dashboards-check observe FORCE

help: ## print every target
	@echo "Countersign: make <target>"
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## compile every service and the operator's command into bin/
	go build -o bin/ ./cmd/...

man: ## write the manual pages of the operator's command into build/man
	mkdir -p build/man
	go run ./cmd/countersign man build/man

test: tools ## run all tests of all modules with the race detector; brings its own PostgreSQL (PKG=./pkg/store/... RUN=Name)
	@command -v $${CC:-gcc} cc >/dev/null || { echo "the race detector needs a C compiler: apt-get install gcc libc6-dev, or xcode-select --install"; exit 1; }
	$(BIN)/testpg -- $(BIN)/testrun -json $(EVENTS) -- $(RACE) -count=1 $(if $(RUN),-run '$(RUN)') $(PKG)

race: tools ## hunt a race: repeat the tests of PKG COUNT times (PKG=./pkg/store COUNT=10 RUN=Name)
	$(BIN)/testpg -- $(BIN)/testrun -json .cache/race.json -- $(RACE) -count=$(COUNT) $(if $(RUN),-run '$(RUN)') $(PKG)

lint: $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION) vet house ## gofmt, go vet, house rules, golangci-lint (its first build takes minutes)
	set -e; for dir in $$(go list -m -f '{{.Dir}}'); do (cd "$$dir" && $< run ./...); done

vet: ## the cheap part of lint: gofmt and go vet
	@unformatted=$$( (git -c safe.directory='*' ls-files -co --exclude-standard '*.go' 2>/dev/null || find . -name '*.go' -not -path './.*/*') | xargs gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not formatted (run gofmt -w):"; echo "$$unformatted"; exit 1; fi
	go vet $(RACE) work

rules: $(PROMTOOL) ## check Prometheus' configuration, rules and the dashboards' expressions, and play every alert, firing and not
	$(PROMTOOL) check config deploy/prometheus/prometheus.yml
	go run ./tools/cmd/dashboards -rules .cache/panels.yml && $(PROMTOOL) check rules .cache/panels.yml
	set -e; for file in deploy/prometheus/tests/*.yml; do $(PROMTOOL) test rules $$file; done

helm: ## lint and render the Helm chart through Helm's engine, and hold what comes out to what it promises (compiles for a minute)
	cd test/helm && GOWORK=off GOFLAGS=-buildvcs=false go vet . && GOWORK=off GOFLAGS=-buildvcs=false go test -count=1 .

dashboards: ## write Grafana's dashboards from tools/dashboards
	go run ./tools/cmd/dashboards -write

dashboards-check: ## ask a running Prometheus every expression of every dashboard and rule (PROMETHEUS_URL=http://127.0.0.1:9090)
	go run ./tools/cmd/dashboards -check $(PROMETHEUS_URL) $(ARGS)

observe: $(PROMETHEUS)/promtool ## the whole system beside a Prometheus, the story, and every expression of every dashboard and rule asked (3 minutes)
	go run ./test/observe -prometheus $(PROMETHEUS)/prometheus -- go run ./tools/cmd/dashboards -check {url} -interval 5m $(ARGS)

# Debian's package is unpacked, not installed: installing it would start a server.
$(PROMETHEUS)/promtool:
	@command -v apt-get >/dev/null || { echo "promtool is missing: install Prometheus, so that promtool is found in PATH"; exit 1; }
	@mkdir -p $(PROMETHEUS)
	cd $(PROMETHEUS) && { apt-get download prometheus || { apt-get update && apt-get download prometheus; }; }
	cd $(PROMETHEUS) && dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x --strip-components=3 ./usr/bin && rm prometheus_*.deb && touch promtool

house: ## the rules of the repository: imports, package docs, links, spec ids
	go test $(RACE) -count=1 ./tools/house

generate: proto ## everything generated: proto, and what `go generate` makes
	go generate $$(go list -f '{{.Dir}}' work)

proto: $(BIN)/buf-$(BUF_VERSION) $(BIN)/protoc-gen-go-$(PROTOC_GEN_GO_VERSION) ## lint the protobuf files and generate their Go (the first build of buf takes minutes)
	ln -sf protoc-gen-go-$(PROTOC_GEN_GO_VERSION) $(BIN)/protoc-gen-go
	$< lint
	PATH="$(BIN):$$PATH" $< generate

verify: ## what CI may not find changed: go generate, go.mod, go.sum
	go generate $$(go list -f '{{.Dir}}' work)
	set -e; for dir in $$(go list -m -f '{{.Dir}}'); do (cd "$$dir" && go mod tidy -diff); done
	@git diff --exit-code || { echo "generated files differ from the committed ones: commit them with the change that caused them"; exit 1; }

fuzz: tools ## run every fuzz test for FUZZTIME (10s each; RUN=Name picks)
	$(BIN)/fuzz -time $(FUZZTIME) -run '$(RUN)' .

bench: tools ## count the requests to GitHub and run the benchmarks (PKG=./pkg/policy BENCH=Name; UPDATE=1 writes the table of requests)
	$(BIN)/testpg -- go test -count=1 -timeout 30m ./internal/costs $(if $(UPDATE),-update) -storm 150
	$(BIN)/testpg -- go test -run '^$$' -bench '$(BENCH)' -benchmem $(PKG)

bench-ingest: ## webhooks a second made durable, against its two limits (ARGS='-write docs/performance.md')
	go run ./test/bench/ingest $(ARGS)

bench-settle: ## from a change to the final check, idle and beside a storm; bursts; evaluators side by side (ARGS='-only latency')
	go run ./test/bench/settle $(ARGS)

bench-console: ## how long the console's pages take over a large database (ARGS='-decisions 100000 -write docs/performance.md')
	go run ./test/bench/console $(ARGS)

browser: tools ## drive the console in Chromium, Debian's package chromium (COUNTERSIGN_SCREENSHOTS=$$PWD/docs/img writes its pictures)
	$(BIN)/testpg -- go test -count=1 -tags browser ./test/browser

bench-codeowners: ## compare pkg/policy's CODEOWNERS with another library in one run (ARGS=-file=CODEOWNERS)
	go run ./tools/bench/codeowners $(ARGS)

conformance: tools ## per section of the specification: ids with a passing test, ids without, totals
	$(BIN)/conformance

model: ## explore the protocol within its large bounds, and without each fence (ARGS=-history)
	go run ./tools/cmd/model $(ARGS)

chaos: ## N random schedules of events and faults from SEED, PARALLEL at once, in one process; exits 1 on any violation (SEED=7 N=100 PARALLEL=4 ARGS=-services)
	go build -race=false -tags chaos -o $(BIN)/chaos ./test/chaos/cmd/chaos
	nice $(BIN)/chaos -seed $(SEED) -n $(N) -parallel $(PARALLEL) $(ARGS)

fences: tools ## play the bad order behind each fence, with it and without it
	$(BIN)/testpg -- go test -race=false -tags chaos -count=1 ./test/chaos

chaos-processes: ## the same with a process for every replica, SIGKILL, SIGSTOP and wrong clocks, built with the race detector
	go build -race=false -tags chaos -o $(BIN)/chaos ./test/chaos/cmd/chaos
	go build -tags chaos $(RACE) -o $(BIN)/chaos-services/ ./cmd/ingress ./cmd/invalidator ./cmd/fanout ./cmd/evaluator ./cmd/reconciler
	nice $(BIN)/chaos -binaries $(BIN)/chaos-services -seed $(SEED) -n $(N) -parallel $(PARALLEL) -slow 3 $(ARGS)

mutants: ## change one operator of PKG at a time and list what no test notices (PKG=pkg/policy FILES=judge; minutes to an hour)
	go run ./tools/cmd/mutants -dir $(if $(filter work,$(PKG)),pkg/policy,$(PKG)) -files "$(or $(FILES),.)" -skip Imports

contract: ## hold the GitHub stand-in and the client to GitHub's published descriptions (fetched by npm, cached)
	go run ./test/contract -cache .cache/contract $(ARGS)

demo: ## all services against a GitHub stand-in that plays a story, on http://127.0.0.1:8080 (ARGS=--once ends with it)
	go run ./cmd/countersign dev --demo $(ARGS)

images: ## every image, from binaries compiled here; nothing is pulled (VERSION=v1.2.3 ARCH=arm64)
	VERSION=$(VERSION) ARCH=$(ARCH) deploy/images.sh

images-offline: ## stand-ins for the images of Postgres, NATS and Prometheus where none can be pulled (Debian, as root)
	deploy/offline/images.sh .cache/offline

containers: ## the whole system in containers: scaled, killed, restarted under load (an engine, `make images`; 15 minutes)
	go test -race=false -tags containers -count=1 -timeout 60m -v ./test/containers

vuln: $(BIN)/govulncheck-$(GOVULNCHECK_VERSION) ## look for known vulnerabilities in what is called
	$< ./...

tidy: ## go mod tidy in every module, then align the workspace
	set -e; for dir in $$(go list -m -f '{{.Dir}}'); do (cd "$$dir" && go mod tidy); done
	go work sync

clean: ## remove what these targets made; the module and build caches stay
	rm -rf bin .cache

# Not listed: what the targets above stand on.
tools: $(TOOLS)

$(TOOLS): FORCE
	@go build -buildvcs=false -o $@ ./tools/cmd/$(@F)

FORCE:

# $(call pin,name,version,package): a tool at its pinned version, under a name that says so.
define pin
$(BIN)/$(1)-$(2):
	GOBIN=$(BIN) GOFLAGS= GOWORK=off go install $(3)@$(2)
	mv $(BIN)/$(1) $$@
endef
$(eval $(call pin,golangci-lint,$(GOLANGCI_LINT_VERSION),github.com/golangci/golangci-lint/v2/cmd/golangci-lint))
$(eval $(call pin,govulncheck,$(GOVULNCHECK_VERSION),golang.org/x/vuln/cmd/govulncheck))
$(eval $(call pin,buf,$(BUF_VERSION),github.com/bufbuild/buf/cmd/buf))
$(eval $(call pin,protoc-gen-go,$(PROTOC_GEN_GO_VERSION),google.golang.org/protobuf/cmd/protoc-gen-go))
