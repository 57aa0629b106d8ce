// Package perf measures an adapter against another: bandwidth and message
// rate with many messages outstanding, or the latency of one at a time.
//
// The client and the server agree over a TCP connection on the measurement and on
// their queue pairs; the data goes through the adapters. The client measures. The last
// message of each queue pair carries a pattern, which its receiver checks: a
// measurement with wrong bytes is an error, not a number.
//
// Reading order: plan.go and service.go (the measurement), control.go (the
// agreement), localside.go and channel.go (one side's buffers, queue pairs and,
// for RD, EE context), client.go, sprint.go (many messages), pingpong.go (one at a
// time), server.go, sink.go, watch.go (migrations), summary.go and report.go (the
// result).
package perf
