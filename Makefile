# Every target is one command; what it does is written in Go.

.PHONY: check test attacks fuzz generate bench bench-libraries bench-epoll demo sim soak mutations search transfer transfer-lossy transfer-rd interop interop-gate capi capi-check capi-check-suites install

check: ## all that the continuous integration checks
	go run ./internal/tools/check

test: ## the tests with the race detector
	go test -race ./...

attacks: ## the attack tests for longer than the gate runs them, about ten minutes
	go run ./internal/tools/attacks

fuzz: ## each fuzz target for a minute
	go run ./internal/tools/check -only fuzz -fuzztime 1m

generate: ## write generated code and tables anew
	go generate ./...

bench: ## compare the adapter with UDP without RDMA, with itself under loss, and with TCP
	go run ./bench

bench-libraries: ## measure Debian's programs on our libibverbs.so.1 against Go, UDP, UCX over TCP and libfabric: writes docs/programs-speed.md
	go run ./bench -libraries -page docs/programs-speed.md

bench-epoll: ## a server and clients that sleep in epoll_wait, on our libraries and over TCP
	go run ./bench -epoll

demo: ## two adapters talk over UDP
	go run ./cmd/softhca demo

sim: ## a thousand short simulations
	go run ./cmd/softhca sim --seeds 1..1000

soak: ## simulations for an hour
	go run ./cmd/softhca sim --for 1h

mutations: ## each seeded bug of the engine and of the libraries in C must be caught
	go test -tags mutation -count=1 -v -timeout 30m ./internal/mutation

SEED ?= 1
search: ## a hundred small edits of the engine where SEED draws them: who notices?
	go test -tags mutation -count=1 -v -timeout 3h -run TestSearch ./internal/mutation -search-count 100 -search-seed $(SEED) -rewrite

transfer: ## 1 GiB between two processes by WRITE, READ and SEND at each path MTU
	go test -count=1 -v -timeout 30m -run 'TestTransfer$$' ./verbs -transfer-bytes 1073741824

transfer-lossy: ## the same with 1 % of packets lost and 1 % reordered at both ends
	go test -count=1 -v -timeout 60m -run 'TestTransferLossy$$' ./verbs -transfer-lossy-bytes 1073741824

transfer-rd: ## 1 GiB over a channel of reliable datagrams that four queue pairs share, also with 1 % of packets lost at both ends
	go test -count=1 -v -timeout 60m -run 'TestV18_Transfer$$' ./verbs -transfer-rd-bytes 1073741824

capi-check: ## Debian's RDMA programs on our libibverbs.so.1: all of this machine, and the core of those of Debian 13 and sid
	go run ./capi/check -root host,trixie,sid

SUITES ?= trixie,sid
capi-check-suites: ## only the core of these programs, from the packages of Debian suites (SUITES=bookworm,trixie,sid)
	go run ./capi/check -root $(SUITES)

INTEROP ?=
interop: ## against Linux's Soft-RoCE, in emulated machines: root or user namespaces; INTEROP=-short for a few minutes
	go run ./interop $(INTEROP)

interop-gate: ## five seeded bugs, each noticed by the same: writes docs/interop-gate.md
	go test -tags mutation -count=1 -v -timeout 60m -run 'TestInterop$$' ./internal/mutation -interop -rewrite

LIBDIR ?= build/lib
capi: ## the libraries that unmodified programs run on, into LIBDIR: needs gcc and libibverbs-dev
	go run ./internal/tools/capi $(LIBDIR)

PREFIX ?= /usr/local
install: ## the command into PREFIX/bin, those libraries into PREFIX/lib/softhca, manual pages and completions into PREFIX/share
	go run ./internal/tools/install $(PREFIX) $(DESTDIR)
