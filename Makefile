# What a developer types. `make` alone lists it. GNU make, a POSIX shell and Go are
# enough (race and check want a C compiler too); tools come from the Go module proxy at the
# versions tools/go.mod pins. Every target can be run again at any time.

GO       ?= go
# How long each fuzz target runs; empty: ten seconds, less where there are very many.
FUZZTIME ?=
# What the programs say they are; without git "devel".
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

TOOL := $(GO) tool -modfile=tools/go.mod
# Go stamps the commit as well, unless git does not answer (an archive, another owner's
# folder): that would stop the build.
VCS = $(shell git status --porcelain >/dev/null 2>&1 && echo true || echo false)
# All three programs have a main.version. -s -w leaves out the symbol tables; a panic still
# names its lines.
RELEASE = -buildvcs=$(VCS) -ldflags "-s -w -X main.version=$(VERSION)"

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build test check format lint vet guest-deps race fuzz deadcode bench fmt clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

# The sandbox engine starts the program again inside an empty root folder, where there is
# no dynamic linker, and with C's runtime linked in statically it hangs: both were tried.
# So the program is built without cgo. The guest agent runs in foreign root file systems,
# always on Linux; it is built without cgo for that reason, and without our paths.
build: ## build bin/airlock, bin/airlock-engine and bin/airlock-agent
	CGO_ENABLED=0 $(GO) build $(RELEASE) -o bin/airlock ./cmd/airlock
	CGO_ENABLED=0 GOOS=linux $(GO) build $(RELEASE) -o bin/airlock-engine ./cmd/airlock-engine
	CGO_ENABLED=0 GOOS=linux $(GO) build -trimpath $(RELEASE) -o bin/airlock-agent ./cmd/airlock-agent

test: ## run the tests
	$(GO) test ./...

CHECKS = format lint vet guest-deps race fuzz deadcode

check: ## everything that must hold before a change goes in (all of it runs, then it fails)
	@failed=; times=; \
	for target in $(CHECKS); do \
		printf '\n── %s\n' "$$target"; start=$$(date +%s); \
		$(MAKE) --no-print-directory "$$target" || failed="$$failed $$target"; \
		times="$$times $$target=$$(( $$(date +%s) - start ))s"; \
	done; \
	printf '\ncheck:%s\n' "$$times"; \
	if [ -n "$$failed" ]; then echo "check: FAILED:$$failed" >&2; exit 1; fi

format: ## say which files `make fmt` would change
	$(TOOL) golangci-lint fmt --diff

lint: ## run the linters; .golangci.yml holds the import rules
	$(TOOL) golangci-lint run ./...

# Sandboxes need Linux; the clients of one do not.
vet: ## check that all of it passes go vet for macOS and Windows, and that airlock builds there
	@for os in darwin windows; do \
		echo "GOOS=$$os go vet and go build"; \
		CGO_ENABLED=0 GOOS=$$os $(GO) vet ./... && \
		CGO_ENABLED=0 GOOS=$$os $(GO) build -o /dev/null ./cmd/airlock || exit 1; \
	done

# The linter sees what a package imports; this sees all that the guest binary links.
guest-deps: ## check that the guest binary holds no HTTP, no sandbox and no gate
	@deps=$$(CGO_ENABLED=0 GOOS=linux $(GO) list -deps ./cmd/airlock-agent) || exit 1; \
	bad=$$(printf '%s\n' "$$deps" | \
		grep -E '^(airlock/|net/http$$|gvisor\.dev/|modernc\.org/|github\.com/spf13/)' | \
		grep -vxE 'airlock/(agent|cmd/airlock-agent|internal/(fastsys|mux|rpc|unpack)|internal/guest(/.*)?)'); \
	if [ -n "$$bad" ]; then printf 'the guest binary must not hold:\n%s\n' "$$bad" >&2; exit 1; fi; \
	echo "the guest binary holds $$(printf '%s\n' "$$deps" | wc -l) packages, none of them forbidden"

# The fast tests of every package, and all tests of those where goroutines meet sandboxes. The rest of the slow
# ones run in `make test`. The race detector needs cgo, and the engine cannot run with cgo (see build): the driver sees that
# and makes, once, another build of the same source without cgo and without the detector, to be the engine. So what is
# watched is the host's side of a sandbox, and the guest agent in its own package's tests.
RACED = ./internal/executor/... ./internal/mux/... ./internal/netgate/... ./internal/sandbox/manager/... ./internal/sandbox/pool/... ./internal/sandbox/host/... ./internal/sandbox/gvisor/...

race: ## run the tests with the race detector
	CGO_ENABLED=1 $(GO) test -race -short ./...
	CGO_ENABLED=1 $(GO) test -race $(RACED)

fuzz: ## run every fuzz target for FUZZTIME (10s, all of them within some minutes)
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' sh tools/fuzz.sh

# A report, not a verdict: the public package and packages in the making hold what
# nothing here calls yet.
deadcode: ## list functions that neither a program nor a test reaches
	@$(TOOL) deadcode -test ./... || echo "deadcode could not look (not a failure of check)"

# Beside crun, runc and bubblewrap where they are installed, and with a static busybox; without
# them it says what was not measured.
bench: ## measure, and write docs/benchmarks.md; BENCHFLAGS are handed on
	$(GO) run ./cmd/airlock-bench -write $(BENCHFLAGS)

fmt: ## put the source into its format
	$(TOOL) golangci-lint fmt

clean: ## remove what build made
	rm -rf bin
