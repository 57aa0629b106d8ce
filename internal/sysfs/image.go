//go:build linux

package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/softhca/softhca/ib"
)

// entry is a file of an image, with its path below the root.
type entry struct {
	path, text string
	kind       kind
}

type kind uint8

const (
	regular kind = iota // contains the text and a newline
	directory
	symlink   // points to the text
	character // the preload library shows it as a character device
)

// Device numbers that the kernel gives to the first verbs device and to the connection
// manager's, and the ABI versions of both.
const (
	uverbsMajor   = 231
	uverbsMinor   = 192
	miscMajor     = 10
	connectMinor  = 121
	verbsABI      = "6"
	connectABI    = "4"
	deviceABI     = "1"
	madABI        = "5"
	capabilities  = "0x04010000" // of the port: it has a connection manager and IP-based GIDs
	portRate      = "100 Gb/sec (4X EDR)"
	firmware      = "1.0"
	class         = "sys/class/infiniband"
	noDistance    = "-1" // no NUMA node
	maxInterfaces = 16   // maximum shown for a device with many addresses
)

// entries returns the files of the image of some adapters, in order.
func entries(ds []Description) []entry {
	all := []entry{
		{path: class + "_cm", kind: directory},
		{path: class + "_mad/abi_version", text: madABI},
		{path: class + "_verbs/abi_version", text: verbsABI},
		{path: "sys/class/misc/rdma_cm/abi_version", text: connectABI},
		{path: "sys/class/misc/rdma_cm/dev", text: fmt.Sprintf("%d:%d", miscMajor, connectMinor)},
		// Its size is the minor number.
		{path: "dev/infiniband/rdma_cm", text: strings.Repeat(" ", connectMinor), kind: character},
	}
	for i := range ds {
		all = append(all, adapter(&ds[i], i)...)
	}
	return all
}

// adapter returns the files of the adapter with a number.
func adapter(d *Description, number int) []entry {
	ca := class + "/" + d.Name
	guid := ib.GUID(d.Identity.NodeGUID).String()
	uverbs := fmt.Sprintf("uverbs%d", number)
	verbs := class + "_verbs/" + uverbs
	all := []entry{
		// The preload library adds its size to the minor number.
		{path: "dev/infiniband/" + uverbs, text: strings.Repeat(" ", number), kind: character},
		{path: verbs + "/abi_version", text: deviceABI},
		{path: verbs + "/dev", text: fmt.Sprintf("%d:%d", uverbsMajor, uverbsMinor+number)},
		{path: verbs + "/device", text: "../../infiniband/" + d.Name + "/device", kind: symlink},
		{path: verbs + "/ibdev", text: d.Name},
		{path: ca + "/board_id", text: "softhca"},
		{path: ca + "/fw_ver", text: firmware},
		{path: ca + "/hca_type", text: "softhca"},
		{path: ca + "/hw_rev", text: "0"},
		{path: ca + "/node_desc", text: d.Name},
		{path: ca + "/node_guid", text: guid},
		{path: ca + "/node_type", text: "1: CA"},
		{path: ca + "/sys_image_guid", text: guid},
		{path: ca + "/device/infiniband/" + d.Name, text: "../../../" + d.Name, kind: symlink},
	}
	all = append(all, host(d, ca+"/device/")...)
	return append(all, port(d, ca+"/ports/1/", boardOf(number))...)
}

// port returns the files of the port, in directory at.
func port(d *Description, at string, board boardAt) []entry {
	all := []entry{
		{path: at + "cap_mask", text: capabilities},
		{path: at + "lid", text: "0x0"}, // RoCE has no LIDs and no subnet manager
		{path: at + "lid_mask_count", text: "0"},
		{path: at + "link_layer", text: "Ethernet"},
		{path: at + "phys_state", text: board.downWord("5: LinkUp", "3: Disabled")},
		{path: at + "pkeys/0", text: fmt.Sprintf("%#04x", uint16(ib.PKeyDefault))},
		{path: at + "rate", text: portRate},
		{path: at + "sm_lid", text: "0x0"},
		{path: at + "sm_sl", text: "0"},
		{path: at + "state", text: board.downWord("4: ACTIVE", "1: DOWN")},
	}
	// Programs in C see a single address twice (device.Config.SecondGID).
	for i := range max(len(d.Identity.Addrs), 2) {
		n, of := strconv.Itoa(i), min(i, len(d.Identity.Addrs)-1)
		all = append(all,
			entry{path: at + "gids/" + n, text: gid(d.Identity.Addrs[of])},
			entry{path: at + "gid_attrs/types/" + n, text: "RoCE v2"},
			entry{path: at + "gid_attrs/ndevs/" + n, text: d.Identity.Interfaces[of]})
	}
	for _, w := range board.portWords() {
		all = append(all, entry{path: at + "counters/" + w.name, text: w.spec})
	}
	for _, w := range board.engineWords() {
		all = append(all, entry{path: at + "hw_counters/" + w.name, text: w.spec})
	}
	return all
}

func gid(a netip.Addr) string { return ib.GIDFromAddr(a).String() }

// host returns the files of directory at, the device on the host's bus: network
// interfaces and local processors.
func host(d *Description, at string) (all []entry) {
	var names []string
	for _, n := range d.Identity.Interfaces {
		if len(names) < maxInterfaces && !slices.Contains(names, n) {
			names = append(names, n)
			all = append(all, entry{path: at + "net/" + n, text: "/sys/class/net/" + n, kind: symlink})
		}
	}
	near := "/sys/class/net/" + names[0] + "/device/"
	online := line("/sys/devices/system/cpu/online", "0")
	return append(all,
		entry{path: at + "local_cpulist", text: line(near+"local_cpulist", online)},
		entry{path: at + "local_cpus", text: line(near+"local_cpus", cpuMask(online))},
		entry{path: at + "numa_node", text: line(near+"numa_node", noDistance)})
}

// line returns the content of a one-line file, or instead if there is none.
func line(name, instead string) string {
	text, err := os.ReadFile(name)
	if s := strings.TrimSpace(string(text)); err == nil && s != "" {
		return s
	}
	return instead
}

// maxCPUs bounds a mask of processors, as the kernel does.
const maxCPUs = 8192

// cpuMask turns a list of processors such as 0-3,8 into the mask that the kernel
// prints: words of eight hexadecimal digits, the highest first.
func cpuMask(list string) string {
	words := []uint32{0}
	for part := range strings.SplitSeq(list, ",") {
		first, last, ok := strings.Cut(part, "-")
		if !ok {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 32)
		to, err2 := strconv.ParseUint(last, 10, 32)
		if err != nil || err2 != nil || to >= maxCPUs {
			continue
		}
		for i := from; i <= to; i++ {
			for len(words) <= int(i/32) {
				words = append(words, 0)
			}
			words[i/32] |= 1 << (i % 32)
		}
	}
	text := make([]string, len(words))
	for i, w := range words {
		text[len(words)-1-i] = fmt.Sprintf("%08x", w)
	}
	return strings.Join(text, ",")
}

// The modes of files in /sys. Other users have access only to the images of root: the directory of
// other images is private. A file with deviceMode represents a device (capi/preload/value.c).
const (
	fileMode   = 0o444
	dirMode    = 0o755
	deviceMode = os.ModeSticky | 0o644 // programs see 0666; others must not write to the file
)

// write makes the files below an existing empty directory.
func write(root string, all []entry) error {
	for _, e := range all {
		name := filepath.Join(root, e.path)
		if err := os.MkdirAll(filepath.Dir(name), dirMode); err != nil {
			return err
		}
		if err := e.make(name); err != nil {
			return err
		}
	}
	return nil
}

// allow gives the files below a directory their modes, whatever the umask is. They say nothing that
// the packets of the adapter do not.
func allow(root string) error {
	return filepath.WalkDir(root, func(name string, f fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case f.IsDir():
			return os.Chmod(name, dirMode)
		case f.Type() != 0: // a symbolic link
			return nil
		}
		info, err := f.Info()
		if err == nil && info.Mode()&os.ModeSticky == 0 {
			err = os.Chmod(name, fileMode)
		}
		return err
	})
}

func (e *entry) make(name string) error {
	switch e.kind {
	case directory:
		return os.Mkdir(name, dirMode)
	case symlink:
		return os.Symlink(e.text, name)
	case character:
		return errors.Join(os.WriteFile(name, []byte(e.text), fileMode), os.Chmod(name, deviceMode))
	default:
		return os.WriteFile(name, []byte(e.text+"\n"), fileMode)
	}
}
