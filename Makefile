# Image that deploy and build-installer write into the manifests.
IMG ?= $(RELEASE_IMG)
# What the manager says it is.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0-dev)

SHELL = /usr/bin/env bash -o pipefail
.SHELLFLAGS = -ec

# One setting for every compilation, so that build, test, lint and the tools share one build cache. A C compiler is
# needed by test-race alone.
export CGO_ENABLED = 0

# With -trimpath, checkouts in different directories share the build cache, since no object file depends on the directory.
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)

LDFLAGS = -X github.com/berth-dev/berth/internal/setup.version=$(VERSION)

MODULE = github.com/berth-dev/berth

# Tools are pinned in go.tools.mod, apart from what the operator is built from, and run from Go's build cache. Helm imports much of what the
# operator imports. It has a module of its own, with the operator's versions of that, so that this is compiled once.
TOOL = go tool -modfile=$(CURDIR)/go.tools.mod
CONTROLLER_GEN = $(TOOL) controller-gen
CRD_REF_DOCS = $(TOOL) crd-ref-docs
GOLANGCI_LINT = $(TOOL) golangci-lint
KUSTOMIZE = $(TOOL) kustomize
HELM = go tool -modfile=$(CURDIR)/hack/helm/go.mod helm
GOTESTSUM = $(TOOL) gotestsum
STRESS = $(TOOL) stress
KUBECTL ?= kubectl

# The control plane of suites and demo: KUBEBUILDER_ASSETS where it is given, else built from Go modules into bin/.
ifdef KUBEBUILDER_ASSETS
assets =
else
KUBEBUILDER_ASSETS = $(CURDIR)/bin
assets = controlplane
demo_assets = controlplane-demo
dev_assets = controlplane-dev
# Programs that are not in this directory are taken from bin/.
demo dev-up: KUBEBUILDER_ASSETS = $(CURDIR)/bin$(if $(filter yes,$(PREBUILT)),/prebuilt)
endif
export KUBEBUILDER_ASSETS

# What demo and dev-up need of the control plane is downloaded if it is not compiled already, and compiled if that fails;
# PREBUILT=no always compiles. ENVTEST_INDEX is the URL of another index for setup-envtest.
PREBUILT ?= yes
ENVTEST_INDEX ?=
prebuilt = -prebuilt '$(if $(filter yes,$(PREBUILT)),../../bin/prebuilt)' $(if $(ENVTEST_INDEX),-index '$(ENVTEST_INDEX)')
# In an unchanged checkout of a release, demo and dev-up download Berth's own programs too, from RELEASES/v0.1.0/.
RELEASES ?= https://github.com/berth-dev/berth/releases/download
released = $(and $(filter yes,$(PREBUILT)),$(filter v$(RELEASE),$(VERSION)))

# The policy engine of tests of policies that are decided elsewhere: where the control plane is, else built into bin/.
engine = $(if $(filter-out $(CURDIR)/bin/opa,$(abspath $(wildcard $(KUBEBUILDER_ASSETS)/opa))),,opa)

# Arguments for go test: make test TESTFLAGS='-run TestDecide -v' PACKAGES=./internal/...
# The suites that wait longest start first, so that they wait while others compute, and not alone at the end.
PACKAGES ?= $(addprefix ./test/integration/,remediation runbook remoteengine remote certificates scaling) ./test/install ./hack/dev ./...
TESTFLAGS ?=
TEST_TIMEOUT ?= 20m
# Without debugging information and a table of symbols, linking a test takes a third less time. Stack traces don't need them.
TEST_LINK = -ldflags=-s
# Tests and the control planes that they start take a fifth less processor time, and up to 1.5 GiB for an API server, if a garbage
# collection begins at four times the live heap. Benchmarks run with Go's default, which is twice.
TEST_GOGC ?= 300
test test-race fuzz e2e: export GOGC = $(TEST_GOGC)
test-compat-%: export GOGC = $(TEST_GOGC)
# How many packages are tested at once. Suites wait for a control plane more than they compute.
TEST_PACKAGES_AT_ONCE ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 2)))
# make lint runs go vet. Here, Go would run it on all that a test imports, which takes minutes with an empty cache.
GO_TEST_FLAGS = -count=1 -vet=off -p=$(TEST_PACKAGES_AT_ONCE) $(TEST_LINK) -timeout=$(TEST_TIMEOUT) $(TESTFLAGS)
# The directory of the reports of each run of tests, by the name of the target.
TEST_REPORTS ?= $(CURDIR)/bin/reports

# How much searches, random tests, and benchmarks with asserted ranges try: 1 in CI. make soak and make release-check set SOAK_BUDGET.
BUDGET ?= 1
SOAK_BUDGET ?= 20
export BERTH_TEST_BUDGET = $(BUDGET)

# Runs a command of gotestsum: $(1) is the name of the target, $(2) are the packages, $(3) are arguments of gotestsum and, after --,
# of go test, and $(4) is the directory to run in; the repository if it is empty. A test that fails, or the specs of a suite that fail,
# run once more alone, unless more than five tests fail. At the end, the slowest packages and specs are printed, and a line FLAKY for
# each test that passed when it ran again.
define run_tests
reports='$(abspath $(TEST_REPORTS))/$(1)'; rm -rf "$$reports"; mkdir -p "$$reports"; code=0; \
(cd '$(or $(4),.)' && BERTH_TEST_REPORTS="$$reports" $(GOTESTSUM) --format=pkgname-and-test-fails --hide-summary=skipped \
  --jsonfile="$$reports/events.json" --rerun-fails=1 --rerun-fails-max-failures=5 --packages='$(2)' $(3)) || code=$$?; \
CGO_ENABLED=0 go run ./hack/testreport "$$reports"; exit $$code
endef

# Arguments for the end-to-end tests: make e2e E2EFLAGS=-ginkgo.focus=drained
E2EFLAGS ?=
E2E_TIMEOUT ?= 40m

.PHONY: all
all: build

##@ General

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*##"; printf "\nUsage:\n  make \033[36m<target>\033[0m\n"} /^[a-zA-Z_0-9-]+:.*?##/ { printf "  \033[36m%-17s\033[0m %s\n", $$1, $$2 } /^##@/ { printf "\n\033[1m%s\033[0m\n", substr($$0, 5) }' $(MAKEFILE_LIST)

##@ Development

# The directories whose markers say what the operator may do.
marked = $(foreach dir,$(wildcard controllers webhooks internal cmd),paths=./$(dir)/...)

.PHONY: manifests
manifests: ## Write the CRDs, the schema for editors, and the manager's ClusterRole from the markers in the code.
	$(CONTROLLER_GEN) crd paths=./api/... output:crd:artifacts:config=config/crd/bases
	go run ./hack/jsonschema -out config/schema/placementpolicy.json
	$(CONTROLLER_GEN) rbac:roleName=manager-role $(marked) output:rbac:artifacts:config=config/rbac

.PHONY: generate
generate: ## Write the DeepCopy methods of the API types, and docs/metrics.md.
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/...
	go run ./hack/metricsdoc -out docs/metrics.md

.PHONY: console-types
console-types: ## Write the TypeScript types of the console's endpoints from the Go types.
	go run ./hack/consoletypes -out web/src/types.gen.ts

.PHONY: reference
reference: ## Write docs/reference.md from the API types, the kinds of Events, and the flags of the manager.
	$(CRD_REF_DOCS) --source-path=api/v1alpha1 --config=hack/reference/config.yaml --templates-dir=hack/reference/templates \
	  --renderer=markdown --output-path=docs/reference.md --log-level=ERROR
	go run ./hack/reference >> docs/reference.md

.PHONY: fmt
fmt: ## Format the code and its imports.
	$(GOLANGCI_LINT) fmt

.PHONY: vet
vet: ## Run go vet.
	go vet ./...

# The linters take a third less processor time if a garbage collection begins at four times the live heap, which may take LINT_MEMORY.
LINT_MEMORY ?= 6GiB
lint lint-fix: export GOGC = 300
lint lint-fix: export GOMEMLIMIT = $(LINT_MEMORY)

.PHONY: lint
lint: ## Run the linters, the import rules of the architecture and the rules of language among them.
	go run ./hack/language
	$(GOLANGCI_LINT) run ./...
	cd hack/controlplane && $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...
	cd hack/image && $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...
	cd hack/prometheus && $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...

.PHONY: lint-fix
lint-fix: ## Run the linters and repair what they can repair.
	$(GOLANGCI_LINT) run --fix ./...
	cd hack/controlplane && $(GOLANGCI_LINT) run --fix --config $(CURDIR)/.golangci.yml ./...
	cd hack/image && $(GOLANGCI_LINT) run --fix --config $(CURDIR)/.golangci.yml ./...
	cd hack/prometheus && $(GOLANGCI_LINT) run --fix --config $(CURDIR)/.golangci.yml ./...

# With npm and the packages that web/package-lock.json pins, make verify builds the pages of the console again. In CI, it fails without them,
# unless CONSOLE_UNCHECKED is set.
NPM := $(shell command -v npm)

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && npm ci
	touch $@

.PHONY: console
console: console-types console-pages ## Build the pages of the console into internal/console/assets, and test their parts; needs Node.js and npm.
	cd web && npm test

.PHONY: screenshots
screenshots: ## Make the pictures of the documentation again: docs/images; needs Chromium and the font Inter.
	go test -count=1 -v -run='^TestScreenshots$$' ./internal/console -screenshots=$(CURDIR)/docs/images

.PHONY: console-pages
console-pages: web/node_modules/.package-lock.json
	cd web && npm run build

# Generates in a copy, so that the tree stays as it is whatever comes out, and whatever interrupts it. What no source
# asks for any more is stale too, hence the removal first.
.PHONY: verify
verify: ## Fail where generated files or the lists of modules are stale; changes nothing.
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; mkdir "$$tmp/tree" "$$tmp/regenerated"; \
	git ls-files -z --cached --others --exclude-standard \
	  | while IFS= read -r -d '' file; do if [ -e "$$file" ]; then printf '%s\0' "$$file"; fi; done \
	  | tar --create --null --files-from=- > "$$tmp/tree.tar"; \
	tar --extract --file="$$tmp/tree.tar" --directory="$$tmp/tree"; \
	tar --extract --file="$$tmp/tree.tar" --directory="$$tmp/regenerated"; \
	rm -rf "$$tmp"/regenerated/{config/{crd/bases,schema/placementpolicy.json,rbac/role.yaml},web/src/types.gen.ts,docs/{metrics,reference}.md,bundle,bundle.Dockerfile*,catalog/berth,charts/berth/{crds,files}}; \
	for target in generate manifests reference console-types chart bundle catalog; do $(MAKE) --no-print-directory --directory="$$tmp/regenerated" "$$target"; done; \
	if [ -n '$(NPM)' ] && [ -f web/node_modules/.package-lock.json ]; then \
	  rm -rf "$$tmp/regenerated/internal/console/assets"; cp -r --preserve=timestamps web/node_modules "$$tmp/regenerated/web/"; \
	  $(MAKE) --no-print-directory --directory="$$tmp/regenerated" console-pages; rm -rf "$$tmp/regenerated/web/node_modules"; \
	elif [ -n "$${CI:-}" ] && [ -z "$${CONSOLE_UNCHECKED:-}" ]; then \
	  echo 'Error: without npm and web/node_modules, the pages of the console can not be built again: run npm ci in web, or set CONSOLE_UNCHECKED=allowed' >&2; exit 1; \
	else echo 'The pages of the console are not built again, without npm and web/node_modules (cd web && npm ci)'; fi; \
	if ! (cd "$$tmp" && diff --recursive --new-file --unified tree regenerated); then \
	  echo "Error: generated files are stale (see above): run make generate manifests reference console chart bundle catalog (without npm, console-types in place of console), and delete what it no longer writes" >&2; exit 1; fi
	go mod tidy -diff
	cd hack/controlplane && go mod tidy -diff
	for minor in $(COMPAT_MINORS); do (cd hack/controlplane/compat/$$minor && go mod tidy -diff); done
	cd hack/envtest && go mod tidy -diff
	cd hack/helm && go mod tidy -diff
	cd hack/image && go mod tidy -diff
	cd hack/opa && go mod tidy -diff
	cd hack/prometheus && go mod tidy -diff

##@ Test

# Tests are never taken from the cache of results: the suites depend on binaries that Go does not look at.
.PHONY: test
test: $(assets) $(engine) ## Run all tests that need no root: units, and suites against a real API server.
	@$(call run_tests,test-controlplane,./...,-- -count=1 -vet=off $(TEST_LINK),hack/controlplane)
	@$(call run_tests,test-image,./...,-- -count=1 -vet=off $(TEST_LINK),hack/image)
	@$(call run_tests,test-prometheus,./...,-- -count=1 -vet=off $(TEST_LINK),hack/prometheus)
	@$(call run_tests,test,$(PACKAGES),-- $(GO_TEST_FLAGS))

UNIT_PACKAGES ?= ./api/... ./cmd/... ./controllers/... ./hack/... ./internal/... ./webhooks/...

.PHONY: unit
unit: ## Run the unit tests; they need no control plane.
	go test -short $(TEST_LINK) -timeout=$(TEST_TIMEOUT) $(TESTFLAGS) $(UNIT_PACKAGES)

# The minor releases of Kubernetes that hack/controlplane/compat pins, beside that of make test. COMPAT selects among them
# and that of make test, which runs again only if it is named.
COMPAT_MINORS = $(notdir $(patsubst %/go.mod,%,$(wildcard hack/controlplane/compat/*/go.mod)))
COMPAT ?= $(COMPAT_MINORS)
COMPAT_PACKAGES ?= $(addprefix ./test/integration/,admission lifecycle quota remediation)
# Arguments for the suites, such as --ginkgo.label-filter=versions.
COMPATFLAGS ?=

.PHONY: test-compat
test-compat: $(addprefix test-compat-,$(COMPAT)) ## Run the suites of admission, lifecycle, quota, and remediation on older API servers: COMPAT=1.30.

# kube-apiserver is of the minor release, and the rest of make test.
test-compat-%: $(assets) $(engine) bin/controlplane
	@version=$$(go list -C hack/controlplane -m -f '{{.Version}}' k8s.io/kubernetes); \
	dir=$(CURDIR)/bin/compat/$*; \
	if [ -e hack/controlplane/compat/$*/go.mod ]; then \
	  mkdir -p "$$dir"; \
	  (cd hack/controlplane/compat/$* && $(CURDIR)/bin/controlplane -apiserver -out "$$dir"); \
	  for name in etcd kubectl opa; do if [ -x "$$KUBEBUILDER_ASSETS/$$name" ]; then ln -sf "$$KUBEBUILDER_ASSETS/$$name" "$$dir/$$name"; fi; done; \
	  export KUBEBUILDER_ASSETS="$$dir"; \
	elif [ "$${version#v$*.}" = "$$version" ]; then \
	  echo "Error: no API server of Kubernetes $* is pinned: choose COMPAT among $(COMPAT_MINORS) and $${version%.*}, or add hack/controlplane/compat/$*" >&2; exit 1; \
	fi; \
	echo "Testing on $$("$$KUBEBUILDER_ASSETS/kube-apiserver" --version)"; \
	$(call run_tests,compat-$*,$(COMPAT_PACKAGES),-- $(GO_TEST_FLAGS) $(if $(COMPATFLAGS),-args $(COMPATFLAGS)))

# The tools of the documents' commands are compiled outside, since inside there is no network.
.PHONY: e2e
e2e: controlplane-node ## Install, break, upgrade and uninstall Berth on a real cluster of two nodes; needs root and containerd.
	go test -c -vet=off $(TEST_LINK) -tags=e2e -o bin/e2e.test ./test/e2e
	@$(call run_tests,e2e,./test/e2e,--format=standard-verbose --raw-command -- go tool test2json -t -p $(MODULE)/test/e2e ../../bin/e2e.test -test.v=test2json -test.timeout=$(E2E_TIMEOUT) -ginkgo.v -ginkgo.no-color $(E2EFLAGS),test/e2e)

RACE_PACKAGES ?= ./controllers/... ./internal/... ./webhooks/...

.PHONY: test-race
test-race: $(engine) ## Run the unit tests under the race detector; needs a C compiler.
	@export CGO_ENABLED=1; $(call run_tests,race,$(RACE_PACKAGES),-- -race $(GO_TEST_FLAGS))

# How many inputs each target tries, in place of its own number, which takes a few seconds. A time limit would fail the search with
# "context deadline exceeded" in some runs: the coordinator of Go's fuzzing returns that error where a worker meets the end of the time
# before the coordinator does.
FUZZ_RUNS ?=

# The targets of fuzzing, without Fuzz.
FUZZ ?= Fields RandomPolicies Integers Numbers Cost Divide Of Verdicts Admission

# With no, fuzzing is not guided by the code that an input reaches. For that, Go would compile all packages once more, which takes longer
# than a short search.
FUZZ_GUIDED ?= yes

# Runs a target of fuzzing: its name, its package, how many inputs it tries with a budget of 1, and further flags of tests. What is found
# is written to the package's testdata/fuzz, and is a test from then on. Minimizing a recipe of FuzzAdmission takes hundreds of requests to the API server.
fuzz_target = $(if $(filter $(1),$(FUZZ)),$(if $(filter no,$(FUZZ_GUIDED)), \
  go test -c -vet=off $(TEST_LINK) -o bin/fuzz.test $(2) && cd $(2) && $(CURDIR)/bin/fuzz.test -test.fuzzcachedir=$(CURDIR)/bin/fuzz, \
  go test -vet=off $(TEST_LINK) $(2)) \
  -test.run='^$$' -test.fuzz='^Fuzz$(1)$$' -test.fuzztime=$(or $(FUZZ_RUNS),$(shell echo $$(($(3) * $(BUDGET)))))x $(4))

.PHONY: fuzz
fuzz: $(assets) ## Look for policies that the engine or the analysis of fields gets wrong, pods that predicates get wrong, objects that admission alters or that cost too much, divisions of replicas that break a rule, and requests that get past policies.
	$(call fuzz_target,Fields,./internal/policy/analysis,15000,-test.fuzzminimizetime=10x)
	$(call fuzz_target,RandomPolicies,./internal/engine/embedded,3000,-test.fuzzminimizetime=10x)
	$(call fuzz_target,Integers,./internal/projection,200000,-test.fuzzminimizetime=10x)
	$(call fuzz_target,Numbers,./webhooks/placementmutator,200,-test.fuzzminimizetime=10x)
	$(call fuzz_target,Cost,./webhooks/placementmutator,20,-test.fuzzminimizetime=1x -test.parallel=1)
	$(call fuzz_target,Divide,./internal/division,100000,-test.fuzzminimizetime=10x)
	$(call fuzz_target,Of,./internal/workload,300000,-test.fuzzminimizetime=10x)
	$(call fuzz_target,Verdicts,./internal/predicates,2500,-test.fuzzminimizetime=10x)
	$(call fuzz_target,Admission,./test/fuzz/admission,300,-test.fuzzminimizetime=10x -test.parallel=2)

.PHONY: soak
soak: $(assets) $(engine) ## Run what is random or searches with a large budget: make fuzz, and the random tests; hours.
	$(MAKE) --no-print-directory fuzz BUDGET=$(SOAK_BUDGET)
	$(MAKE) --no-print-directory test PACKAGES='$(RANDOM_PACKAGES)' TEST_TIMEOUT=3h BUDGET=$(SOAK_BUDGET)

# The packages with tests whose rounds or sizes the budget scales.
RANDOM_PACKAGES = $(shell grep --recursive --files-with-matches --include=*_test.go 'budget\.\(Rounds\|Size\)\b' api cmd controllers docs internal test webhooks | xargs dirname | sort -u | sed 's,^,./,')

# How long make churn changes things, as in 8h, and how often in a second.
CHURN ?= 20m
CHURN_RATE ?= 20
# Where make churn writes the heap profile of each replica after each round.
CHURN_HEAPS ?= $(CURDIR)/bin/reports/churn

.PHONY: churn
churn: $(assets) ## Change clusters, policies, and workloads for CHURN, and kill leaders and API servers; fails if replicas grow, or decide otherwise than a new one.
	mkdir -p $(CHURN_HEAPS)
	BERTH_CHURN=$(CHURN) BERTH_CHURN_RATE=$(CHURN_RATE) BERTH_CHURN_HEAPS=$(CHURN_HEAPS) go test -count=1 -vet=off $(TEST_LINK) -timeout=0 ./test/integration/scaling \
	  -args -ginkgo.focus='Under churn' -ginkgo.timeout=100h -ginkgo.v

# The sizes of make scaling, as workloads/clusters/policies, and the memory limit of the replicas, as in 1800MiB.
SIZES ?= $(foreach w,1000 10000 100000 1000000,$(foreach c,10 100 1000,$(foreach p,1 10 100,$(w)/$(c)/$(p))))
MEMORY ?=

.PHONY: scaling
scaling: $(assets) ## Measure replicas with SIZES, and print the rows of docs/scaling.md; for an idle machine, with 24 GiB for 1,000,000 workloads; hours.
	BERTH_SIZES='$(SIZES)' BERTH_MEMORY=$(MEMORY) go test -vet=off $(TEST_LINK) -timeout=0 -run='^$$' -bench=Sizing -benchtime=1x ./test/integration/scaling

.PHONY: release-check
release-check: soak churn ## Run what a release has to pass beside .ci/run: make soak, the race detector on controllers, internal, and webhooks, older API servers, repeated benchmarks.
	$(MAKE) --no-print-directory test-race test-compat
	$(MAKE) --no-print-directory bench-check BUDGET=$(SOAK_BUDGET)

# Arguments of make flakes: the suite, a regular expression of the spec's text, how many runs, and how many run at the same time.
PACKAGE ?=
SPEC ?=
RUNS ?= 20
AT_ONCE ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

# The runs are each other's load.
.PHONY: flakes
flakes: $(assets) $(engine) ## Run a spec many times at once, and say how often it fails: make flakes PACKAGE=./test/integration/rules SPEC='are warned of' RUNS=20.
	@if [ -z '$(PACKAGE)' ]; then echo "Error: name a suite, as in make flakes PACKAGE=./test/integration/rules SPEC='are warned of'" >&2; exit 1; fi
	go test -c -vet=off $(TEST_LINK) -o bin/flakes.test '$(PACKAGE)'
	cd '$(PACKAGE)' && $(STRESS) -p $(AT_ONCE) -count $(RUNS) -timeout $(TEST_TIMEOUT) $(CURDIR)/bin/flakes.test $(if $(SPEC),-ginkgo.focus='$(SPEC)' -ginkgo.fail-on-empty) $(TESTFLAGS)

# Benchmarks run in turns: a round is every one of them once. The runner knows which of the packages measures end to end.
BENCH ?= .
BENCH_COUNT ?= 6
BENCHTIME ?= 300ms
BENCH_PACKAGES ?= ./test/bench ./controllers/remediator ./webhooks/placementmutator ./internal/console ./test/bench/endtoend
BENCH_RUN = go run ./test/bench/runner -bench='$(BENCH)' -benchtime=$(BENCHTIME)
# Any budget above 1 stands for worlds of full size.
bench bench-results: export BERTH_TEST_BUDGET = 2

.PHONY: bench
bench: $(assets) $(engine) ## Run the benchmarks, in the form that benchstat reads; they want a machine of their own.
	@$(BENCH_RUN) -count=$(BENCH_COUNT) $(BENCH_PACKAGES)

.PHONY: bench-results
bench-results: $(assets) $(engine) ## Run all benchmarks and write their medians into test/bench/RESULTS.md.
	@$(BENCH_RUN) -count=$(BENCH_COUNT) -results=test/bench/RESULTS.md $(BENCH_PACKAGES)

.PHONY: bench-check
bench-check: $(assets) $(engine) ## Fail where ratios and sizes are out of what test/bench/ranges.yaml asserts.
	@go run ./test/bench/runner -check -count=$(if $(filter 1,$(BUDGET)),1,3) -benchtime=200ms

##@ Build

.PHONY: build
build: bin/manager bin/kubectl-berth ## Build the manager and the kubectl plugin into bin/.

bin/manager: FORCE
	@hack/progress.sh "Compiling the manager" go build -ldflags "$(LDFLAGS)" -o $@ ./cmd/manager

bin/kubectl-berth: FORCE
	@hack/progress.sh "Compiling the kubectl plugin" go build -ldflags "-X main.release=$(VERSION)" -o $@ ./cmd/kubectl-berth

# What the image holds is of the commit: its date is the commit's. PLATFORMS as in linux/amd64,linux/arm64.
PLATFORMS ?= $(RELEASE_PLATFORMS)
IMAGE_DIR ?= $(CURDIR)/dist/image

.PHONY: image
image: ## Build the image IMG for PLATFORMS without a container engine: dist/image/berth.tar, and an SBOM for each.
	go -C hack/image run . -source $(CURDIR) -out $(IMAGE_DIR) -name $(IMG) -version $(VERSION) -platforms $(PLATFORMS) \
	  -commit "$$(git rev-parse HEAD)" -date "$$(git log -1 --format=%cI)"

.PHONY: console-image
console-image: ## Build the image that config/console runs: dist/image/berth-console.tar.
	go -C hack/image run . -source $(CURDIR) -out $(IMAGE_DIR) -package ./cmd/kubectl-berth -archive berth-console.tar \
	  -name $(CONSOLE_IMG) -version $(VERSION) -platforms $(PLATFORMS) -commit "$$(git rev-parse HEAD)" -date "$$(git log -1 --format=%cI)"

.PHONY: assets
assets: $(assets) $(engine) ## Build the control plane and the OPA server of the tests, unless KUBEBUILDER_ASSETS has them.

.PHONY: controlplane
controlplane: bin/controlplane ## Build the control plane from Go modules into bin/; minutes at first, then seconds.
	cd hack/controlplane && ../../bin/controlplane -out ../../bin

.PHONY: controlplane-node
controlplane-node: bin/controlplane ## Build kubelet and kube-proxy too, for make e2e.
	cd hack/controlplane && ../../bin/controlplane -nodes -out ../../bin

.PHONY: controlplane-demo
controlplane-demo: bin/controlplane ## Download etcd, kube-apiserver and kubectl into bin/prebuilt, or build them into bin/, for make demo.
	cd hack/controlplane && ../../bin/controlplane -demo -out ../../bin $(prebuilt)

.PHONY: controlplane-dev
controlplane-dev: bin/controlplane ## The same, and build kube-controller-manager and kube-scheduler, for make dev-up.
	cd hack/controlplane && ../../bin/controlplane -out ../../bin $(prebuilt)

# The program that builds and downloads the control plane.
bin/controlplane: FORCE
	@cd hack/controlplane && ../progress.sh "Compiling what builds the control plane" go build -o ../../$@ ./build

# Go looks at what the binary was built from, and leaves it alone where that is the same.
.PHONY: opa
opa: ## Build the OPA server from its Go module into bin/; a minute or two at first, then a second.
	cd hack/opa && go build -o ../../bin/opa github.com/open-policy-agent/opa

# The program comes from the release if possible, and is compiled otherwise.
program-%: FORCE
	@$(if $(released),{ go build -o bin/download ./hack/download && hack/progress.sh "Downloading $*" bin/download -url '$(RELEASES)' -version $(VERSION) -dir bin $*; } ||) \
	  $(MAKE) --no-print-directory bin/$*

bin/dev: FORCE
	@hack/progress.sh "Compiling the demo" go build -o $@ ./hack/dev

.PHONY: FORCE
FORCE:

.PHONY: build-installer
build-installer: overlay ## Write everything that a cluster needs into dist/install.yaml.
	$(KUSTOMIZE) build dist/overlay > dist/install.yaml

# The image comes in through an overlay, so that no file under version control has to change for it. OVERLAY is what is
# deployed: config/remote/host for an API server elsewhere.
OVERLAY ?= config/default

.PHONY: overlay
overlay:
	mkdir -p dist/overlay
	rm -f dist/overlay/kustomization.yaml
	cd dist/overlay && $(KUSTOMIZE) create --resources ../../$(OVERLAY) && $(KUSTOMIZE) edit set image controller=$(IMG)

##@ Helm

.PHONY: chart
chart: ## Write the chart's CRDs, roles, alerts, dashboard and version, from config/.
	{ $(KUSTOMIZE) build config/default; echo ---; $(KUSTOMIZE) build config/prometheus; echo ---; $(KUSTOMIZE) build config/grafana; } \
	  | go run ./hack/chart -out charts/berth -version $(RELEASE)

# Arguments for helm, such as HELMFLAGS='--set replicas=3'.
HELMFLAGS ?=

.PHONY: helm-lint
helm-lint: ## Run helm lint on the chart.
	$(HELM) lint --strict charts/berth

.PHONY: helm-template
helm-template: ## Show what the chart installs, CRDs included.
	$(HELM) template berth charts/berth --namespace berth-system --include-crds $(HELMFLAGS)

.PHONY: helm-package
helm-package: ## Write the chart as an archive into dist/.
	$(HELM) package charts/berth --destination dist

##@ Operator Lifecycle Manager

# The release that the bundle installs; only here it is said. The bundle is under version control, so that, unlike
# VERSION, it can't be asked of git.
RELEASE = 0.1.0
RELEASE_IMG = ghcr.io/berth-dev/berth:v$(RELEASE)
# The image of the console for several users.
CONSOLE_IMG ?= ghcr.io/berth-dev/berth-console:v$(RELEASE)
# The platforms of the release's image, which the bundle tells OLM.
RELEASE_PLATFORMS = linux/amd64,linux/arm64
# The channel that catalog/template.yaml makes, and the release that this one replaces, as in berth.v0.1.0, for catalogs
# that are not made from it.
CHANNEL = candidate-v0
REPLACES =
BUNDLE ?= bundle
CATALOG ?= catalog/berth/catalog.yaml

.PHONY: bundle
bundle: ## Write the bundle by which OLM installs the operator, from config/.
	$(KUSTOMIZE) build config/manifests | go run ./hack/bundle -out $(BUNDLE) -version $(RELEASE) -image $(RELEASE_IMG) \
	  -platforms $(RELEASE_PLATFORMS) -channel $(CHANNEL) -replaces "$(REPLACES)" -icon config/manifests/icon.svg

.PHONY: catalog
catalog: ## Write the catalog that offers the bundle to OLM.
	go run ./hack/bundle/catalog -template catalog/template.yaml -bundle $(BUNDLE) -out $(CATALOG)

##@ Release

# The kubectl plugin is also for the machines of users.
PLUGIN_PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64
RELEASE_DIR ?= dist/release

.PHONY: release
release: image build-installer helm-package ## Write the files that a release publishes, and their checksums, into dist/release, and check them.
	hack/release.sh $(RELEASE_DIR) $(VERSION) $(IMAGE_DIR) '$(PLATFORMS)' '$(PLUGIN_PLATFORMS)'
	hack/release_check.sh $(RELEASE_DIR) $(VERSION)

# The tag need not exist.
.PHONY: release-dry-run
release-dry-run: ## Write and check the files of the next release, without its tag; publishes nothing.
	$(MAKE) --no-print-directory release VERSION=v$(RELEASE)

##@ Local cluster

.PHONY: dev-up
dev-up: $(dev_assets) program-manager program-kubectl-berth bin/dev ## Start control plane and operator in the background; .dev/kubeconfig is an admin's.
	bin/dev up

.PHONY: dev-down
dev-down: bin/dev ## Stop what dev-up started.
	bin/dev down

.PHONY: demo
demo: $(demo_assets) program-manager bin/dev ## Play the story of the first policy; ONESHOT=1 checks each step, stops all and exits.
	bin/dev demo $(if $(ONESHOT),-oneshot)

##@ Deployment

ignore-not-found ?= false

.PHONY: install
install: ## Install the CRDs into the cluster of the current kubeconfig.
	$(KUBECTL) apply -k config/crd

.PHONY: uninstall
uninstall: ## Remove the CRDs, and with them every policy.
	$(KUBECTL) delete --ignore-not-found=$(ignore-not-found) -k config/crd

.PHONY: deploy
deploy: overlay ## Install everything, with the operator's image IMG.
	$(KUBECTL) apply -k dist/overlay

# Policies and quotas go first, while the operator still runs: without it, the API server would go on to deny whatever
# they matched. The webhook configurations go with the ClusterRole, by garbage collection; those that have no owner, since
# another way of installing left them, by name.
.PHONY: undeploy
undeploy: ## Remove everything that deploy installed, and every policy and quota.
	for kind in placementpolicies limitedresources clusterscopedquotas scopedquotas; do \
	  if $(KUBECTL) get "customresourcedefinition/$$kind.placement.berth.dev" >/dev/null; then \
	    if [ "$$kind" = scopedquotas ]; then everywhere=--all-namespaces; else everywhere=; fi; \
	    $(KUBECTL) delete --ignore-not-found=true --all $$everywhere "$$kind.placement.berth.dev"; fi; done
	$(KUBECTL) delete --ignore-not-found=$(ignore-not-found) -k config/default
	$(KUBECTL) delete --ignore-not-found=true mutatingwebhookconfiguration/berth-placement validatingwebhookconfiguration/berth-policies validatingwebhookconfiguration/berth-quota
