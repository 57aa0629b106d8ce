package verbs

import (
	"context"
	"log/slog"

	"github.com/softhca/softhca/ib"
)

// logged returns the function to call with each record. It calls f and logs, each if it is not
// nil. It formats packets only if the log takes them.
func logged(f func(*TraceRecord), log *slog.Logger) func(*TraceRecord) {
	if log == nil {
		return f
	}
	return func(r *TraceRecord) {
		if f != nil {
			f(r)
		}
		level := r.level()
		if ctx := context.Background(); log.Enabled(ctx, level) {
			log.LogAttrs(ctx, level, r.String(), slog.String("qpn", r.QPN.String()), slog.Duration("at", r.At))
		}
	}
}

// level returns the level at which a record is logged: Debug for records that every message
// produces, Warn for failures.
func (r *TraceRecord) level() slog.Level {
	switch r.Kind {
	case TracePacketOut, TracePacketIn:
		return slog.LevelDebug
	case TraceCompletion:
		switch r.Status {
		case ib.WCSuccess, ib.WCWRFlushErr:
			return slog.LevelDebug
		default:
			return slog.LevelWarn
		}
	case TraceEvent:
		switch r.Event {
		case ib.EventCommEst, ib.EventSQDrained, ib.EventQPLastWQEReached, ib.EventSRQLimitReached, ib.EventPathMig,
			ib.EventEECCommEst, ib.EventEECSQDrained, ib.EventEECPathMig:
			return slog.LevelInfo
		default:
			return slog.LevelWarn
		}
	default:
		return slog.LevelInfo
	}
}

// logOpen logs which adapter was opened. It warns if a link-local address precedes others:
// programs that use GID index 0 then reach only peers on the link.
func (c *Context) logOpen(log *slog.Logger) {
	if log == nil {
		return
	}
	h := c.dev().HCA
	first := h.GID(0).Addr()
	log.Info("adapter open", "gid0", first.String(), "gids", h.GIDs())
	if first.IsLinkLocalUnicast() && h.GIDs() > 1 {
		log.Warn("GID index 0 is a link-local address, which peers reach on this link only, and by IPv6 only: "+
			"use the GID index of another address, or name that as Config.Addr", "gid0", first.String(), "gid1", h.GID(1).Addr().String())
	}
}
