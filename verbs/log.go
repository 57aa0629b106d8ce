package verbs

import "log/slog"

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
