# make up     build and run the whole cluster on this machine
# make test   everything that must hold before a change lands; make e2e-kafka has it hold on Apache Kafka, too

SHELL := /bin/bash
GO   ?= go
RACE := $(shell command -v gcc >/dev/null 2>&1 && echo -race)
# Scripts against the running system and the exhaustive search have targets of their own.
UNIT  = $(shell $(GO) list ./... | grep -v -e /e2e -e /internal/explore)

.PHONY: build up test format lint unit explore e2e experiments e2e-kafka kill-matrix fuzz contract bench bench-cdc clean

build:
	$(GO) build -trimpath -o bin/chorus ./cmd/chorus

up: build
	bin/chorus up

test: format lint unit explore e2e

format:
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo "gofmt -w is needed on the files above"; exit 1; }

lint:
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

unit:
	$(GO) test $(RACE) -timeout 15m $(UNIT)
	cd examples/analytics && $(GO) test -mod=mod $(RACE) ./...

# Without the race detector: it is one goroutine, and a hundred times slower with it.
explore:
	$(GO) test -v -timeout 15m ./internal/explore | grep -E '^(=== RUN|---|ok|FAIL|PASS|panic)|states|^\s+--- FAIL' ; exit $${PIPESTATUS[0]}

e2e: build
	$(GO) test -timeout 20m ./e2e ./e2e/matrix

# Every experiment on a cluster of its own; make test has them, too. On a cluster that is up: bin/chorus experiment run all
experiments: build
	$(GO) test -v -timeout 10m ./e2e -run 'Scripts/experiments$$'

# The same scripts and more on Apache Kafka and a real registry, which Maven fetches; Java 17 is needed. Nothing is skipped.
e2e-kafka: build
	CHORUS_E2E_KAFKA=1 $(GO) test -timeout 30m ./e2e/...

# Every fuzz target for FUZZ each; what it finds is kept under testdata and is then part of the tests.
FUZZ ?= 10s
fuzz:
	@for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | grep -v ^./examples); do \
		for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9]+' $$dir/*_test.go | sed 's/func //'); do \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ) $$dir || exit 1; \
		done; \
	done

# Random kills, freezes and restarts around chorus cdc on Apache Kafka, with both deliveries; a short form is in e2e and e2e-kafka. The seed is printed.
kill-matrix:
	CHORUS_E2E_KAFKA=1 CHORUS_MATRIX_ROUNDS=$${CHORUS_MATRIX_ROUNDS:-200} $(GO) test -v -count=1 -timeout 3h ./e2e/matrix

# The running orders API against its own OpenAPI document, for a minute; fetches schemathesis from PyPI.
contract: build
	services/orders/contract/run

# Prints machine, settings and medians. One alone: make bench BENCH=door. "flat" fills the disk with a million orders and is run by name only.
BENCH ?= door orders start memory slots
bench: build
	$(GO) run ./bench -binary bin/chorus $(BENCH)

# chorus cdc beside its peers on one Apache Kafka and one PostgreSQL. Small by default; the figures of docs/performance.md are those of
# BENCH_CDC="-rows 500000 -big 1000000 -steady 30s -warm 10s" on a quiet machine. Needs Java 17 and, the first time, Maven.
bench-cdc: build
	$(GO) run ./bench/cdc -binary bin/chorus $(BENCH_CDC)

clean:
	rm -rf bin .chorus
