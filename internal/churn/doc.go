// Package churn is shared by tests that create and destroy very many objects in
// random order and compare the remaining ones with a model: how many objects,
// from which seed, and which one next.
//
// Reading order: churn.go.
//
// It has no knowledge of the adapter's objects; only tests import it.
package churn
