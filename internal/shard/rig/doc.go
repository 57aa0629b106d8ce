// Package rig is the test fixture for shards with several ports: a shard with the
// usual objects and its QP1, without the control plane of an adapter.
//
// Reading order: rig.go.
package rig
