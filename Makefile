# Bare `make` lists what there is.
.DEFAULT_GOAL := help
.PHONY: help build test measure new-plugin repeat simulate mutations chaos soak package publish-check demo vectors control-plane toolchain fmt lint docs bench clean deny advisories sbom fuzz image image-check dist dist-check

CARGO ?= cargo
PARITY := $(CARGO) run --locked --quiet --package aileron-parity --bin

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: toolchain ## Build everything, optimised
	$(CARGO) build --locked --workspace --release

# Formatting first because it takes a second; the control plane before cargo, so that its progress is seen.
test: toolchain control-plane ## Run all checks: formatting, lints, unit and property tests, vectors, suites on the sandbox and on a real API server
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) test --locked --workspace
	$(MAKE) --no-print-directory docs
	$(MAKE) --no-print-directory package
	$(MAKE) --no-print-directory image-check
	$(MAKE) --no-print-directory new-plugin
	$(MAKE) --no-print-directory measure

package: toolchain ## Pack every crate that is published, without building what was packed
	$(CARGO) package --locked --workspace --exclude aileron-parity --exclude aileron-simulator --exclude aileron-fuzz-targets --no-verify --allow-dirty --quiet

# Builds each packed crate by itself: a file or a dependency that a package lacks is noticed only then.
publish-check: toolchain ## Do everything that publishing does, except for the upload (about ten minutes; needs a clean checkout)
	$(CARGO) publish --locked --workspace --dry-run

# The copy is the template with other names, so its tests test the template too. It shares the compiled packages of this workspace.
new-plugin: toolchain ## Write a plugin with `aileron new-plugin`, and run its tests and its demo
	$(CARGO) build --locked --workspace --all-targets
	rm -rf target/new-plugin
	target/debug/aileron new-plugin tea-kettle --kind Kettle.kitchen.example.com/v2 --directory target/new-plugin
	$(MAKE) --no-print-directory -C target/new-plugin CARGO="$(CARGO)" CARGO_TARGET_DIR="$(abspath target)" \
		VENV="$(abspath .cache/new-plugin-venv)" test demo

# Suites that compare times, one after the other: beside others they would measure those.
measure: toolchain control-plane ## Run the suites that measure: many tasks under quotas, on a sandbox and on a real API server
	$(CARGO) test --locked --workspace --test suites -- --ignored --test-threads 1

# A test that fails now and then hides defects: it must wait for what it checks, however busy the machine is.
repeat: toolchain control-plane ## Repeat all tests beside busy loops until one fails: make repeat [TIMES=20] [ONLY=<filter>]
	CARGO="$(CARGO)" crates/parity/repeat "$(or $(TIMES),20)" "$(ONLY)"

# Optimised: a campaign is long, and the same binary runs each seed in a process of its own.
simulate: toolchain ## Simulate executors in a faulty cluster: make simulate [SEEDS=<number>] [FROM=<first seed>]
	$(CARGO) build --locked --profile simulate --package aileron-simulator
	target/simulate/aileron-simulator patterns
	target/simulate/aileron-simulator campaign --seeds $(or $(SEEDS),1000) --from $(or $(FROM),0)

mutations: toolchain ## Break promises on purpose and check that simulations notice it: make mutations [ONLY=<text>] (about an hour)
	$(CARGO) run --locked --package aileron-simulator -- mutations $(if $(ONLY),--only "$(ONLY)",--write docs/testing.md)

# Built like the simulator. The program finds the executor beside itself.
chaos: toolchain control-plane ## Kill executors under load on a real API server: make chaos [KILLS=1000] [SEED=<number>]
	$(CARGO) build --locked --profile simulate --package aileron --bin aileron --package aileron-parity --bin chaos
	target/simulate/chaos --kills $(or $(KILLS),1000) $(if $(SEED),--seed $(SEED))

soak: toolchain control-plane ## Watch memory and open files of executors under load: make soak [MINUTES=60] [SEED=<number>]
	$(CARGO) build --locked --profile simulate --package aileron --bin aileron --package aileron-parity --bin soak
	target/simulate/soak --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED))

# Two calls: the first shows how the build gets on, the second nothing but the demo.
demo: toolchain ## Run the example tasks in a sandbox of their own and show how they end
	$(CARGO) build --locked --package aileron
	@$(CARGO) run --locked --quiet --package aileron -- demo

vectors: toolchain ## Compare with recorded vectors: make vectors DIR=<folder> [ONLY=<family>[/<plugin>][,..]] [OUT=<folder>]
	@test -n "$(DIR)" || { echo "usage: make vectors DIR=<folder> [ONLY=<family>[/<plugin>][,..]] [OUT=<folder>]" >&2; exit 2; }
	$(PARITY) vectors -- --dir "$(DIR)" $(if $(ONLY),--only "$(ONLY)") $(if $(OUT),--out "$(OUT)")

# Several calls: the second may be in another place, where KUBEBUILDER_ASSETS holds the first two.
control-plane: ## Find or build the kube-apiserver, etcd, kube-controller-manager and helm of the tests (built once, about 9 minutes)
	@crates/parity/apiserver/build etcd kube-apiserver
	@crates/parity/apiserver/build kube-controller-manager
	@crates/parity/helm/build

# rustup installs what rust-toolchain.toml names by itself.
toolchain:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install rustup, it then brings the compiler that rust-toolchain.toml names" >&2; exit 1; }

bench: toolchain ## Measure building and reading pods: time and allocations
	$(CARGO) bench --locked --package aileron-parity --bench pod

# Kept beside the control plane, so that it is built once. The lock file of the tool pins what it is made of.
CARGO_DENY_VERSION := 0.20.2
CACHE := $(or $(AILERON_CACHE),$(HOME)/.cache/aileron)
CARGO_DENY := $(CACHE)/tools/cargo-deny-$(CARGO_DENY_VERSION)

$(CARGO_DENY)/bin/cargo-deny:
	$(CARGO) install --locked --version $(CARGO_DENY_VERSION) --root $(CARGO_DENY) cargo-deny

deny: toolchain $(CARGO_DENY)/bin/cargo-deny ## Check licences, banned crates and sources with cargo-deny (installs it once)
	$(CARGO_DENY)/bin/cargo-deny --locked check bans licenses sources
	$(CARGO_DENY)/bin/cargo-deny --locked --manifest-path fuzz/Cargo.toml --config deny.toml check bans licenses sources

# Not part of `make test`: the database is a git repository that cannot be reached from every machine.
advisories: toolchain $(CARGO_DENY)/bin/cargo-deny ## Check for known vulnerabilities and yanked crates (needs the network)
	@$(CARGO_DENY)/bin/cargo-deny --locked fetch db || { echo "advisories: NOTHING WAS CHECKED, because the database cannot be fetched from this machine; run this where github.com/RustSec/advisory-db can be reached" >&2; exit 1; }
	$(CARGO_DENY)/bin/cargo-deny --locked check advisories
	$(CARGO_DENY)/bin/cargo-deny --locked --manifest-path fuzz/Cargo.toml --config deny.toml check advisories

PLATFORM ?= $(shell rustc -vV | sed -n 's/^host: //p')
sbom: toolchain ## Write what the binary is made of: make sbom [OUT=aileron.cdx.json] [PLATFORM=<target triple>]
	$(PARITY) sbom -- --out "$(or $(OUT),aileron.cdx.json)" --platform "$(PLATFORM)"

# What a release is built for. Other platforms need `rustup target add` and the C compiler of that platform.
TARGETS ?= $(PLATFORM)
PROFILE ?= release
RELEASE_OPTIONS = $(addprefix --target ,$(TARGETS)) --profile $(PROFILE) $(if $(SOURCE),--source "$(SOURCE)")

image: toolchain ## Build the image without an engine: make image [OUT=target/image.tar] [TARGETS="<target triples>"]
	$(PARITY) release -- image --out "$(or $(OUT),target/image.tar)" $(RELEASE_OPTIONS)

# Static, but not optimised. Only the link is new: all crates are those of the usual build, so this takes seconds.
BUILT := $(or $(CARGO_TARGET_DIR),target)
image-check: toolchain ## Run a static program in the unpacked image: read-only, without root, with nothing else in it
	$(CARGO) build --locked --workspace --all-targets
	rustc --edition 2024 --crate-name aileron -C target-feature=+crt-static -C strip=symbols -L dependency=$(BUILT)/debug/deps \
		--extern aileron=$(BUILT)/debug/libaileron.rlib -o $(BUILT)/debug/aileron-static crates/cli/src/main.rs
	AILERON_STATIC_PROGRAM="$(abspath $(BUILT))/debug/aileron-static" $(CARGO) test --locked --workspace --test release -- --ignored

dist: toolchain ## Write all files of a release: make dist [OUT=target/dist] [TARGETS="<target triples>"] [SOURCE=<url>] [DIRTY=1]
	$(PARITY) release -- dist --out "$(or $(OUT),target/dist)" $(RELEASE_OPTIONS) $(if $(DIRTY),--allow-dirty)

# A build in another folder: a path that gets into the program is noticed only then.
dist-check: dist ## Build the release once more from a clone in another folder, and compare all files (twice the time)
	rm -rf target/dist-check
	git clone --quiet --no-hardlinks . target/dist-check
	$(MAKE) --no-print-directory -C target/dist-check dist CARGO_TARGET_DIR="$(abspath target/dist-check/target)" OUT=target/dist \
		TARGETS="$(TARGETS)" PROFILE="$(PROFILE)" SOURCE="$(SOURCE)"
	diff "$(or $(OUT),target/dist)/SHA256SUMS" target/dist-check/target/dist/SHA256SUMS
	@echo "dist-check: both builds gave the same files"

fuzz: toolchain ## Run libFuzzer targets: make fuzz [TARGET=<name>|all] [RUNS=100000]
	CARGO="$(CARGO)" fuzz/run "$(or $(TARGET),all)" "$(or $(RUNS),100000)"

fmt: ## Format the sources
	$(CARGO) fmt --all

lint: ## Check formatting and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

docs: ## Build the API documentation; a warning is an error
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps

clean: ## Remove what was built here (the control plane stays in its cache)
	$(CARGO) clean
