//go:build !lockorder

package lock

import "sync"

// Mutex is a mutex of a rank.
type Mutex[R Rank] = sync.Mutex

// RWMutex is a mutex of a rank for one writer or several readers.
type RWMutex[R Rank] = sync.RWMutex

// Acquire checks that the caller may take the lock word of an object, and records
// that it holds it.
func Acquire[R Rank](object any) {}

// Release records that the caller no longer holds the lock word.
func Release(object any) {}
