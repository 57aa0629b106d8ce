//go:build !lockorder

package lock

import "sync"

// Mutex is a mutex of a rank.
type Mutex[R Rank] = mutex

// RWMutex is a mutex of a rank for one writer or several readers.
type RWMutex[R Rank] = rwMutex

// The compiler inlines the methods of these types. It does not if they have type parameters,
// or if the aliases stand for those of sync.
type (
	mutex   struct{ sync.Mutex }
	rwMutex struct{ sync.RWMutex }
)
