# Every target is one command; what it does is written in Go.

.PHONY: check test fuzz generate bench demo

check: ## all that the continuous integration checks
	go run ./internal/tools/check

test: ## the tests with the race detector
	go test -race ./...

fuzz: ## each fuzz target for a minute
	go run ./internal/tools/check -only fuzz -fuzztime 1m

generate: ## write generated code and tables anew
	go generate ./...

bench: ## measure the adapter beside UDP without RDMA
	go run ./bench

demo: ## two adapters talk over UDP
	go run ./cmd/softhca demo
