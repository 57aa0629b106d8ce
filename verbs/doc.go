// Package verbs is the public interface of the adapter: the verbs of the
// InfiniBand architecture, in the shape that users of libibverbs know.
//
// Open returns a device context. From it come protection domains, memory
// regions, completion queues and queue pairs; a queue pair is moved to RTS
// with Modify, work is posted with PostSend and PostRecv, and its completions
// are polled from a CQ. Two contexts, in one process or in two, on one host
// or on two, talk RoCEv2 over UDP port 4791, and so do a context and Linux's
// Soft-RoCE.
//
// Everything here may be used from several goroutines at once. No call waits
// for a peer but CQ.Wait, CompChannel.Get and GetAsyncEvent. Those that make, change or
// end an object wait until the thread that moves packets lets go of the adapter,
// which is soon; AttachMcast and DetachMcast wait for the system too. Errors
// unwrap to the errno that libibverbs would return, so that errors.Is(err,
// syscall.ENOMEM) works.
package verbs

// For readers of the source: config.go, devices.go and context.go, pd.go, mr.go and ah.go,
// cq.go, channel.go and wait.go, endpoint.go, qp.go and sendwr.go, rd.go, mcast.go, srq.go, event.go, faults.go,
// trace.go and log.go; vocabulary.go has the words that come from package ib, and the
// errors. All of it is thin over package internal/device.
