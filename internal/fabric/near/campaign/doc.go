// Package campaign has only tests: real processes exchange data through shared memory, and are
// killed, stopped, replaced (exec) or forked in the middle of it. Package near and its tests show
// what each part does; these tests show that an adapter with all its parts loses no byte, does not
// hang and leaves nothing behind.
//
// A test is one side of a connection. The other side is the test binary in another process, which
// carries out orders (process_linux_test.go). Both sides send a stream of messages whose contents
// follow from a seed, and check what they receive (side_linux_test.go).
//
//	go test ./internal/fabric/near/campaign                      one round of each test
//	go test ./internal/fabric/near/campaign -near-rounds 100     as many as before a release
//	go test ./internal/fabric/near/campaign -near-crowd 64       64 processes, which need 4 GiB of memory
//	go test ./internal/fabric/near/campaign -near-seed 7         the rounds of a run that printed this seed
//
// Reading order: main_linux_test.go, side_linux_test.go, process_linux_test.go, traces_linux_test.go,
// then the tests: events_linux_test.go, crowd_linux_test.go, apart_linux_test.go, hostile_linux_test.go.
package campaign
