package launch

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// socket is a UDP socket of the host on RoCE's port.
type socket struct{ uid, inode string }

// socketsOn returns the sockets on RoCE's port of an address or of all addresses.
func socketsOn(a netip.Addr) (found []socket) {
	for _, file := range []string{"/proc/net/udp", "/proc/net/udp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a kernel without IPv6
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		for lines.Scan() {
			// Number, local address, remote address, state, queues, timer, retransmissions,
			// user, timeout, inode.
			f := strings.Fields(lines.Text())
			if len(f) < 10 {
				continue
			}
			own, ok := parseLocal(f[1])
			if ok && own.Port() == rocePort && (own.Addr() == a || own.Addr().IsUnspecified()) {
				found = append(found, socket{f[7], f[9]})
			}
		}
	}
	return found
}

// parseLocal parses an address and port of /proc/net/udp: words of four bytes in host order,
// and the port.
func parseLocal(s string) (p netip.AddrPort, ok bool) {
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(b)%4 != 0 {
		return p, false
	}
	for word := range slices.Chunk(b, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	a, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), ok
}

// owner describes the owner of the port of an address.
func owner(a netip.Addr) string {
	sockets := socketsOn(a)
	for _, s := range sockets {
		if who := process(s.inode); who != "" {
			return who
		}
	}
	if _, err := os.Stat("/sys/module/rdma_rxe"); err == nil {
		return "Linux's own Soft-RoCE, it seems (`rdma link` lists its devices; `modprobe -r rdma_rxe` ends it)"
	}
	if len(sockets) > 0 {
		return "a process that is not visible to this user, of user " + sockets[0].uid
	}
	return "a process that is not visible from here"
}

// reserver describes the owner of the reservation of an address.
func reserver(a netip.Addr) string {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return "a process that is not visible from here"
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		// Address, references, protocol, flags, type, state, inode, name.
		f := strings.Fields(lines.Text())
		if len(f) == 8 && f[7] == reservedName(a) {
			if who := process(f[6]); who != "" {
				return who
			}
			return "a process of another user"
		}
	}
	return "a process that is not visible from here"
}

// process returns the process that has a socket open, or "" if none is visible.
func process(inode string) string {
	link := "socket:[" + inode + "]"
	dirs, _ := filepath.Glob("/proc/[0-9]*/fd")
	for _, dir := range dirs {
		files, err := os.ReadDir(dir)
		if err != nil {
			continue // another user's process, or an ended one
		}
		for _, f := range files {
			if to, err := os.Readlink(filepath.Join(dir, f.Name())); err != nil || to != link {
				continue
			}
			proc := filepath.Dir(dir)
			name, _ := os.ReadFile(filepath.Join(proc, "comm")) // empty if it has just ended
			return fmt.Sprintf("%s (process %s)", bytes.TrimSpace(name), filepath.Base(proc))
		}
	}
	return ""
}
