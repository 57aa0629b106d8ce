// Package churn is what tests share that create and destroy very many objects
// in disorder and compare what is left with a model: how many, from which seed,
// and which next.
//
// Reading order: churn.go.
//
// It knows no object of the adapter; only tests import it.
package churn
