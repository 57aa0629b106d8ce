//go:build linux && cgo

// Command engine is what libibverbs.so.1 loads: a shared object that has the adapter in it
// and gives a program in C one table of calls, softhca_calls of engine.h.
//
// Reading order: engine.h (the calls; the queues, which C reads and writes
// itself, are in ring.h of internal/ring/cpeer), table.c; main.go (handles and
// error numbers), host.go (what the engine calls in C), device.go, pd.go, mr.go,
// subject.go, cq.go, sleep.go, srq.go, qp.go, attr.go, ah.go, mcast.go and ucm.go.
//
// It is over what package verbs is over, internal/device. It keeps no list of
// anything: whoever has a handle has the object. A handle that is used after
// its object ended ends the program, as the like does in C.
//
// Without cgo, and on other systems than Linux, there is no such package.
package main
