package hca

import "github.com/softhca/softhca/internal/qp"

// Access for external tests to internals of the adapter.

// Cfg returns the configuration, to change.
func (h *HCA) Cfg() *Config { return &h.cfg }

// Env returns what the queue pairs share.
func (h *HCA) Env() *qp.Env { return &h.env }
