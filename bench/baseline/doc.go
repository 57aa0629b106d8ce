//go:build linux

// Command baseline measures what UDP without RDMA reaches on this machine: the
// yardstick for the adapter. A sender and a receiver process exchange segments
// as large as RoCE packets with segmentation and receive offload. It does the
// work that RoCE demands and no more: the sender copies each payload once into
// its batch, both sides compute a CRC-32 over every segment, and the receiver
// copies each payload once out of its buffer. A window, opened by small
// acknowledgements, keeps the socket buffer from overflowing. The ping-pong
// mode spins on sockets that do not block, or sleeps on sockets that do, and
// does nothing else. The TCP mode is a stream of the kernel, which copies each
// byte once on both sides too.
//
// Usage:
//
//	go run ./bench/baseline -local [-payload 4096] [-overhead 16] [-seconds 3]
//	go run ./bench/baseline -local -pingpong [-sleep] [-payload 8] [-overhead 32] [-trips N]
//	baseline -listen ADDR:PORT [-pingpong]   (the receiver, on another machine)
//	baseline -peer ADDR:PORT [-bind ADDR] ...
//	baseline -tcp -listen ADDR:PORT          (and its receiver, for one sender)
//	baseline -tcp -peer ADDR:PORT
//
// It prints one JSON object. Throughput counts payload only. Latencies are
// whole round trips.
//
// Reading order: main.go, message.go, socket.go, sender.go, receiver.go,
// pingpong.go, tcp.go.
package main
