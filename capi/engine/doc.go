//go:build linux && cgo

// Command engine is the shared object that libibverbs.so.1 loads. It contains the adapter, and
// offers programs in C one table of calls, softhca_calls of engine.h.
//
// Reading order: engine.h (the calls; the queues, which C reads and writes
// itself, are in ring.h of internal/ring/cpeer), table.c; main.go (handles and
// error numbers), host.go (what the engine calls in C), device.go, clock.go, pd.go, mr.go, dm.go,
// subject.go, cq.go, sleep.go, srq.go, xrc.go, qp.go, attr.go, ah.go and ucm.go.
//
// Like package verbs, it is a layer over internal/device. It keeps no list of objects: a handle
// leads to its object. Using a handle after its object was destroyed ends the program, as using
// a dangling pointer may in C.
//
// The package exists only on Linux and with cgo.
package main
