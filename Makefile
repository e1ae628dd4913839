# All commands that a newcomer or CI needs. Begin with `make run` and `make test`.

CARGO ?= cargo
# Builds the static binary for the target $(1), with FEATURES (postgres,mysql) if they are set, as the file $(2).
static = built=$$(.ci/static $(1) $(FEATURES)) && cp "$$(echo "$$built" | tail -n 1)" $(2) && echo $(2)

.PHONY: help run demo test check fuzz bench static trained static-arm64 static-armv7 test-clients test-clis test-console test-databases test-chaos test-outage test-nginx test-api record-clis openapi fmt

help: ## List these targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

run: ## Build and start the gateway; configuration comes from the environment and .env
	$(CARGO) run --release --quiet -- serve

demo: ## Show the main job end to end with a stub upstream; leaves nothing behind
	$(CARGO) run --release --quiet -- demo

test: ## All tests: no network, no installed servers
	@if $(CARGO) nextest --version >/dev/null 2>&1; then $(CARGO) nextest run; else $(CARGO) test; fi

check: ## Formatting, lints as errors, links in comments, the bench, dependency policy
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets --features postgres,mysql -- -D warnings
	$(CARGO) clippy -- -D warnings
	RUSTDOCFLAGS="-D rustdoc::broken_intra_doc_links -A rustdoc::private_intra_doc_links" \
		$(CARGO) doc --quiet --no-deps --document-private-items --lib --features postgres,mysql
	$(CARGO) check --quiet --bins --manifest-path bench/Cargo.toml --target-dir $${CARGO_TARGET_DIR:-target}
	.ci/references
	.ci/dependencies
	.ci/vendored

fuzz: ## Feed mutated input to every parser, FUZZ_SECONDS (20) for each
	FUZZ_SECONDS=$${FUZZ_SECONDS:-20} $(CARGO) test --quiet --test fuzz -- --test-threads 2

bench: ## Measure the static binary against bare hyper proxies and nginx in one run; writes bench/RESULTS.md
	bench/run

static: ## One static binary for x86_64 (musl), target/switchyard-x86_64; FEATURES=postgres,mysql adds their drivers
	@$(call static,x86_64-unknown-linux-musl,target/switchyard-x86_64)

trained: ## As static, with a profile of the loads of bench/: smaller and faster; takes half an hour
	.ci/trained

static-arm64: ## As static, for 64-bit ARM: target/switchyard-arm64
	@$(call static,aarch64-unknown-linux-musl,target/switchyard-arm64)

static-armv7: ## As static, for 32-bit ARM: target/switchyard-armv7
	@$(call static,armv7-unknown-linux-musleabihf,target/switchyard-armv7)

test-clients: ## Test the official SDKs through the gateway, with an upstream by other authors
	tests/clients/run

test-clis: ## Test Codex, Claude Code and Gemini CLI through the gateway; downloads them
	tests/clients/run --clis

test-console: ## Test the console in a headless Chromium against the real binary; installs what it needs
	tests/console/run

test-api: ## Test the binary against docs/openapi.json with schemathesis and a typed client; API_SECONDS (180) bounds it
	tests/api/run

openapi: ## Write docs/openapi.json anew after a change of a route, a request or an answer
	RENEW_OPENAPI=1 $(CARGO) test --quiet --lib admin::openapi

test-databases: ## Test the store, the admin API and instances on PostgreSQL and MariaDB of their own; installs what is missing
	tests/databases/run

test-chaos: ## Three instances on a PostgreSQL and a MariaDB of their own, one killed every five seconds for CHAOS_SECONDS (60)
	tests/databases/run chaos

test-outage: ## Three instances on a PostgreSQL and a MariaDB of their own, which is stopped for OUTAGE_SECONDS (60)
	tests/databases/run outage

test-nginx: ## Test streams that are silent for a minute, through nginx; installs it if it is missing
	@command -v nginx >/dev/null || apt-get install -y --no-install-recommends nginx
	$(CARGO) test --quiet --test gateway -- --ignored heartbeats::

record-clis: ## Record the sessions of Codex and Claude Code that the tests of prompt caches replay
	tests/clients/run --record

fmt: ## Format the code
	$(CARGO) fmt
