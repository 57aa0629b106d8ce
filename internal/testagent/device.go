package testagent

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/softhca/softhca/ib"
)

// Device describes the adapter and its host.
type Device struct {
	Name      string // such as rxe0
	Kernel    string // release, as from uname
	Firmware  string
	ActiveMTU int // bytes
	GIDs      []GIDEntry
	Numbers   map[string]uint64 // limits and the like by their names in struct ibv_device_attr
}

// GIDEntry is an entry of the GID table.
type GIDEntry struct {
	Index int
	Type  int // 0 InfiniBand, 1 RoCEv1, 2 RoCEv2, as in enum ibv_gid_type
	GID   ib.GID
}

// gidRoCEv2 is IBV_GID_TYPE_ROCE_V2.
const gidRoCEv2 = 2

// GIDIndex returns the entry of an address for RoCEv2, and whether there is
// one.
func (d *Device) GIDIndex(a netip.Addr) (int, bool) {
	want := ib.GIDFromAddr(a)
	for _, e := range d.GIDs {
		if e.GID == want && e.Type == gidRoCEv2 {
			return e.Index, true
		}
	}
	return 0, false
}

// Device returns the adapter's description as of Dial.
func (c *Client) Device() Device { return c.device }

// Hello asks for the adapter's present description.
func (c *Client) Hello(ctx context.Context) (Device, error) {
	r, err := c.Do(ctx, "hello", 0)
	if err != nil {
		return Device{}, err
	}
	if v, err := r.Uint("protocol", 32); err != nil || v != protocol {
		return Device{}, fmt.Errorf("test agent: the program speaks another protocol than %d: compile the source that this version has", protocol)
	}
	f := fields{r: r}
	d := Device{Numbers: r.Numbers(), ActiveMTU: int(f.uint("active_mtu", 16))}
	if f.err != nil {
		return Device{}, f.err
	}
	d.Name, _ = r.Get("device")
	d.Kernel, _ = r.Get("kernel")
	d.Firmware, _ = r.Get("fw")
	for _, s := range r.All("gid") {
		e, err := parseGID(s)
		if err != nil {
			return Device{}, err
		}
		d.GIDs = append(d.GIDs, e)
	}
	return d, nil
}

func parseGID(s string) (GIDEntry, error) {
	w := strings.SplitN(s, ",", 3)
	if len(w) != 3 {
		return GIDEntry{}, fmt.Errorf("test agent: gid=%.60q is not INDEX,TYPE,ADDRESS", s)
	}
	rc := record{words: w[:2]}
	e := GIDEntry{Index: int(rc.uint(10, 16)), Type: int(rc.uint(10, 8))}
	addr, err := netip.ParseAddr(w[2])
	if err == nil {
		err = rc.err
	}
	if err != nil {
		return GIDEntry{}, fmt.Errorf("test agent: gid=%.60q: %w", s, err)
	}
	e.GID = ib.GIDFromAddr(addr.WithZone(""))
	return e, nil
}

// Counters returns the counters of the port, under the operating system's
// names.
func (c *Client) Counters(ctx context.Context) (map[string]uint64, error) {
	r, err := c.Do(ctx, "counters", 0)
	return r.Numbers(), err
}

// Event is an asynchronous event.
type Event struct {
	Type ib.EventType
	Kind string // its object: qp, cq, srq or port
	ID   uint32 // ID of that object; 0 if it is destroyed
}

// Events returns the asynchronous events since the last call, and waits for
// one if there are none.
func (c *Client) Events(ctx context.Context, wait time.Duration) ([]Event, error) {
	ms, wait := waitMS(wait)
	r, err := c.Do(ctx, "events ms="+strconv.FormatInt(ms, 10), wait)
	if err != nil {
		return nil, err
	}
	if lost, err := r.Uint("lost", 64); err != nil || lost > 0 {
		return nil, fmt.Errorf("test agent: %d events were lost", lost)
	}
	var all []Event
	for _, s := range r.All("event") {
		w := strings.Split(s, ",")
		if len(w) != 3 {
			return nil, fmt.Errorf("test agent: event=%.60q is not TYPE,KIND,ID", s)
		}
		rc := record{words: []string{w[0], w[2]}}
		e := Event{Type: ib.EventType(rc.uint(10, 8)), Kind: w[1], ID: uint32(rc.uint(10, 32))}
		if rc.err != nil {
			return nil, fmt.Errorf("test agent: event=%.60q: %w", s, rc.err)
		}
		all = append(all, e)
	}
	return all, nil
}

// Reset destroys every object.
func (c *Client) Reset(ctx context.Context) error {
	_, err := c.Do(ctx, "reset", 0)
	return err
}
