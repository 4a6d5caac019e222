# What a developer and CI type. Everything runs in .venv, made from pinned, hashed wheels.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Modules are compiled when they are first imported: most of what comes along never is.
INSTALL := $(BIN)/pip install -q --disable-pip-version-check --no-compile

# What is imported again and again is compiled once, whatever the caller's shell says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# The pins are complete. pip of Python 3.11 takes none for a package that another one wants with an
# extra, so that it resolves nothing here.
$(VENV)/runtime: requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes --no-deps --only-binary :all: -r requirements.txt
	$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev: requirements-dev.txt $(VENV)/runtime
	$(INSTALL) --require-hashes --no-deps --only-binary :all: -r requirements-dev.txt
	@touch $@

.PHONY: install
install: $(VENV)/runtime ## Install the command into .venv/bin

.PHONY: demo
demo: $(VENV)/runtime ## Play a whole GitOps canary on this machine
	$(BIN)/gitkruise demo $(ARGS)

# Suites with targets of their own.
SUITES := $(addprefix --ignore ,tests/laws tests/fuzz tests/observer)
# Rules of the source, for make check.
LINTS := $(addprefix tests/test_,architecture.py prose.py docs.py tidy.py)

.PHONY: test
test: $(VENV)/dev ## Run the tests
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "not e2e and not kube and not node and not forge and not browser and not slow" $(SUITES) $(addprefix --ignore ,$(LINTS))

# Tests that wait for other programs leave a fifth of the processors idle.
ONE_MORE = $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 1) + 1)")

.PHONY: slow
slow: $(VENV)/dev ## Run the tests that take longer: real programs, whole units; PROFILE=night: all of each
	HYPOTHESIS_PROFILE=$(or $(PROFILE),default) $(BIN)/python -m pytest -q -n $(ONE_MORE) --dist worksteal -m "slow and not e2e and not kube and not node and not forge and not browser" $(SUITES)

.PHONY: laws
laws: $(VENV)/dev ## Hold the laws over many drawn cases; PROFILE=night draws new ones each time
	HYPOTHESIS_PROFILE=$(or $(PROFILE),laws) $(BIN)/python -m pytest -q -n auto --dist worksteal tests/laws

.PHONY: fuzz
fuzz: $(VENV)/dev ## Feed hostile input to every reader; PROFILE=night draws new input each time
	HYPOTHESIS_PROFILE=$(or $(PROFILE),long) $(BIN)/python -m pytest -q -n auto --dist worksteal tests/fuzz

NIGHT := $(if $(filter night,$(PROFILE)),OBSERVER_SEED=$$(date +%s) OBSERVER_HISTORIES=20000 OBSERVER_STEPS=8)

# Repositories of histories are many small files: a disk takes a fifth of the CPU time.
IN_MEMORY := $(if $(wildcard /dev/shm/.),TMPDIR=/dev/shm)

.PHONY: observer
observer: $(VENV)/dev ## Compare all that is said with what is so, over 500 histories; PROFILE=night plays 20,000 new ones
	$(IN_MEMORY) $(NIGHT) $(BIN)/python -m pytest -q -n $(ONE_MORE) --dist worksteal --ignore tests/observer/test_lies.py tests/observer

.PHONY: lies
lies: $(VENV)/dev ## Plant lies in gitkruise, one by one, and have the observer catch each
	$(BIN)/python -m pytest -q -n auto --dist worksteal tests/observer/test_lies.py

.PHONY: e2e
e2e: $(VENV)/dev ## Run the installed command: demo, wheel, tutorial, crashes; and others' clients
	KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$(CURDIR)/$(KUBE_ASSETS)}" $(BIN)/python -m pytest -q -n 2 --dist loadfile -m e2e tests/e2e tests/clients $(ARGS)

.PHONY: browser
browser: $(VENV)/dev ## Look at the dashboard in Chromium (needs chromium)
	$(BIN)/python -m pytest -q -m browser tests/dashboard

.PHONY: conformance
conformance: $(VENV)/dev ## Play every recorded scenario against a sandbox over HTTPS (5 minutes)
	CONFORMANCE=all $(BIN)/python -m pytest -q -n 2 -m e2e tests/e2e/test_conformance.py

KUBE_ASSETS := tests/kube/real/bin
REQUESTS := build/requests

.PHONY: kube-conformance
kube-conformance: $(VENV)/dev ## Play every recorded scenario against a real kube-apiserver (6 minutes)
	CONFORMANCE=all KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$(CURDIR)/$(KUBE_ASSETS)}" $(BIN)/python -m pytest -q -m kube tests/kube/real/test_conformance.py

.PHONY: kube-assets
kube-assets: $(addprefix $(KUBE_ASSETS)/,kube-apiserver kube-controller-manager kubectl endpoints) ## Build kube-apiserver, controllers and kubectl for `make kube` (needs Go, 6 minutes)

$(KUBE_ASSETS)/kube-apiserver: tests/kube/real/go.mod tests/kube/real/go.sum
	cd tests/kube/real && go build -o bin/kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver

$(KUBE_ASSETS)/endpoints: tests/kube/real/endpoints/main.go tests/kube/real/go.mod tests/kube/real/go.sum
	cd tests/kube/real && go build -o bin/endpoints ./endpoints

KUBECTL_VERSION = $(shell sed -n 's,^\tk8s.io/kubernetes ,,p' tests/kube/real/go.mod)

$(KUBE_ASSETS)/kubectl: tests/kube/real/go.mod tests/kube/real/go.sum
	cd tests/kube/real && go build -o bin/kubectl \
		-ldflags "-X k8s.io/component-base/version.gitVersion=$(KUBECTL_VERSION)" k8s.io/kubernetes/cmd/kubectl

CLIENT_ASSETS := tests/clients/operator/bin

CRI_API = $(shell cd tests/kube/real && go list -m -f '{{.Dir}}' k8s.io/cri-api)/pkg/apis/runtime/v1/api.proto

.PHONY: cri-messages
cri-messages: $(VENV)/dev ## Generate the messages of CRI again, from the version that kubelet is built with
	$(PYTHON) -m venv build/protoc
	build/protoc/bin/pip install -q --only-binary :all: grpcio-tools
	install -m 644 -D $(CRI_API) build/proto/cri.proto
	build/protoc/bin/python -m grpc_tools.protoc -Ibuild/proto --descriptor_set_out=build/proto/all cri.proto
	PYTHONPATH=. $(BIN)/python schemas/cri_messages.py < build/proto/all > build/proto/used
	build/protoc/bin/python -m grpc_tools.protoc --descriptor_set_in=build/proto/used \
		--python_out=gitkruise/agent/cri --pyi_out=gitkruise/agent/cri cri.proto

.PHONY: client-assets
client-assets: $(CLIENT_ASSETS)/greetings ## Build the controller-runtime program that `make e2e` runs (needs Go, 1 minute)

$(CLIENT_ASSETS)/greetings: $(wildcard tests/clients/operator/*.go) tests/clients/operator/go.mod tests/clients/operator/go.sum
	cd tests/clients/operator && go build -o bin/greetings .

.PHONY: kube
kube: $(VENV)/dev ## Run the tests that want a real kube-apiserver
	KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$(CURDIR)/$(KUBE_ASSETS)}" $(BIN)/python -m pytest -q -n 2 --dist loadfile -m kube

.PHONY: node-assets
node-assets: kube-assets $(addprefix $(KUBE_ASSETS)/,kubelet kube-scheduler node-app) ## Build what `make node` runs as well: kubelet and scheduler (needs Go, 3 minutes)

# kubelet's version is part of its node, and clients read it.
$(addprefix $(KUBE_ASSETS)/,kubelet kube-controller-manager kube-scheduler): tests/kube/real/go.mod tests/kube/real/go.sum
	cd tests/kube/real && go build -o bin/$(@F) \
		-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$(KUBECTL_VERSION)" k8s.io/kubernetes/cmd/$(@F)

$(KUBE_ASSETS)/node-app: tests/node/app/main.go tests/node/app/go.mod
	cd tests/node/app && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o ../../kube/real/bin/node-app .

.PHONY: node
node: $(VENV)/dev ## Run the tests on a real node: kubelet, containerd, runc (needs root)
	KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$(CURDIR)/$(KUBE_ASSETS)}" $(BIN)/python -m pytest -q -m node tests/node

SOPS_ASSETS := tests/git/sealing/bin

.PHONY: sops-assets
sops-assets: $(SOPS_ASSETS)/sops ## Build the sops that the tests of encrypted files run (needs Go, 4 minutes)

$(SOPS_ASSETS)/sops: tests/git/sealing/go.mod tests/git/sealing/go.sum
	cd tests/git/sealing && go build -o bin/sops github.com/getsops/sops/v3/cmd/sops

HELM_ASSETS := tests/git/helm/program/bin

.PHONY: helm-assets
helm-assets: $(addprefix $(HELM_ASSETS)/,helm registry) ## Build the helm and the registry that the tests of charts run (needs Go, 2 minutes)

# Its Kubernetes modules are those of client-assets, so that both compile them once.
$(HELM_ASSETS)/helm: tests/git/helm/program/go.mod tests/git/helm/program/go.sum
	cd tests/git/helm/program && go build -ldflags "-s -w \
		-X helm.sh/helm/v3/internal/version.version=$$(go list -m -f '{{.Version}}' helm.sh/helm/v3)" \
		-o bin/helm helm.sh/helm/v3/cmd/helm

$(HELM_ASSETS)/registry: tests/git/helm/program/registry/main.go tests/git/helm/program/go.mod tests/git/helm/program/go.sum
	cd tests/git/helm/program && go build -ldflags "-s -w" -o bin/registry ./registry

FORGE_ASSETS := tests/forge/bin

.PHONY: forge-assets
forge-assets: $(FORGE_ASSETS)/gitea $(FORGE_ASSETS)/static ## Build the Gitea that `make forge` runs (needs Go, 5 minutes)

$(FORGE_ASSETS)/gitea: tests/forge/go.mod tests/forge/go.sum
	cd tests/forge && go build -tags "sqlite sqlite_unlock_notify" -o bin/gitea code.gitea.io/gitea

$(FORGE_ASSETS)/static: # Gitea's templates, where the module lies
	mkdir -p $(@D)
	cd tests/forge && go mod download code.gitea.io/gitea
	ln -sfn "$$(cd tests/forge && go list -m -f '{{.Dir}}' code.gitea.io/gitea)" $@

.PHONY: forge
forge: $(VENV)/dev ## Run the tests that want a real forge
	GITEA_ASSETS="$${GITEA_ASSETS:-$(CURDIR)/$(FORGE_ASSETS)}" $(BIN)/python -m pytest -q -m forge tests/forge

.PHONY: check
check: $(VENV)/dev ## Lint, types, rings, names and prose
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q $(LINTS)

.PHONY: golden
golden: $(VENV)/dev ## Rewrite the goldens
	$(BIN)/python -m pytest -q --update-golden

.PHONY: requests
requests: $(VENV)/dev ## Note again the requests of the controller (10 minutes)
	rm -rf $(REQUESTS) && mkdir -p $(REQUESTS) && GITKRUISE_REQUESTS=$(REQUESTS) $(BIN)/python -m pytest -q -n auto -p tests.kube.rights.notes -m "" \
	  tests/controller tests/laws/test_live_laws.py tests/laws/test_agent_laws.py \
	  $(addprefix tests/gitops/,resources reconcile cluster analysis runtime/test_finalizer.py)
	sort -u $(REQUESTS)/*.txt > tests/kube/rights/requests.txt

.PHONY: transcripts
transcripts: $(VENV)/dev $(KUBE_ASSETS)/kube-apiserver $(KUBE_ASSETS)/endpoints ## Record again what a real kube-apiserver answers
	KUBEBUILDER_ASSETS="$(CURDIR)/$(KUBE_ASSETS)" $(BIN)/python -m tests.transcripts

.PHONY: schemas
schemas: $(VENV)/dev ## Generate schemas and CRDs again
	$(BIN)/python schemas/generate.py

.PHONY: docs
docs: $(VENV)/dev ## Generate reference pages and the demo's transcript again
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/record.py

.PHONY: bench
bench: $(VENV)/dev ## Measure what the project promises
	KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$(CURDIR)/$(KUBE_ASSETS)}" $(BIN)/python -m bench

.PHONY: calls
calls: $(VENV)/dev ## Fail when planning, forecasts or rollouts need a quarter more work than recorded
	$(BIN)/python -m bench.calls $(ARGS)

.PHONY: release
release: $(VENV)/dev ## Build the files of a release from HEAD into dist/; ARGS="--help" lists its options
	$(BIN)/python -m release $(ARGS)

.PHONY: site
site: $(VENV)/dev ## Build the documentation as a site into build/site
	$(BIN)/python -m release.site $(ARGS)

PROFILES := build/profiles
.PHONY: profile
profile: $(VENV)/dev ## Write a flame graph of each benchmark, or of those in ONLY, to build/profiles
	mkdir -p $(PROFILES)
	export KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$(CURDIR)/$(KUBE_ASSETS)}"; \
	for name in $(or $(ONLY),$$($(BIN)/python -m bench --list)); do \
	  $(BIN)/py-spy record --subprocesses --nonblocking --rate 200 -o $(PROFILES)/$$name.svg -- \
	    $(BIN)/python -m bench $$name || exit; \
	done

PIN := $(BIN)/pip-compile -q --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	--generate-hashes --strip-extras --allow-unsafe

.PHONY: lock
lock: $(VENV)/dev ## Pin dependencies again
	$(PIN) --extra keyless -o requirements.txt pyproject.toml --build-deps-for=editable
	$(PIN) --extra dev -o requirements-dev.txt pyproject.toml

.PHONY: clean
clean: ## Remove what these targets made
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
