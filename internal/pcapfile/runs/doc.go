// Package runs splits a captured packet that is a run of several packets, which the
// kernel makes by segmentation offload (GSO) or receive offload (GRO). It reads no
// file and keeps nothing.
package runs
