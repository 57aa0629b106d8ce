//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// moduleList is the file that names the kernel modules, in the order in which
// they are loaded.
const moduleList = "/modules/order"

// boot sets up the machine: file systems, modules, the network and the RDMA
// device.
func boot() error {
	if err := mounts(); err != nil {
		return err
	}
	if err := modules(); err != nil {
		return err
	}
	if err := awaitInterface("eth0"); err != nil {
		return err
	}
	for file, text := range map[string]string{
		"/proc/sys/kernel/printk":                    "3 4 1 3",
		"/proc/sys/kernel/hostname":                  "peer",
		"/proc/sys/net/ipv6/conf/eth0/accept_dad":    "0",
		"/proc/sys/net/ipv6/conf/default/accept_dad": "0",
		"/proc/sys/net/ipv6/conf/eth0/accept_ra":     "0",
		"/etc/hosts":                                 "127.0.0.1 localhost\n10.77.0.1 host\n10.77.0.2 peer\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	memory := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &memory); err != nil {
		return err
	}
	// The kernel starts the first process without these variables.
	if err := errors.Join(os.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), os.Setenv("HOME", "/root"), os.Setenv("TERM", "vt100")); err != nil {
		return err
	}
	for _, line := range []string{
		"ip link set lo up",
		"ip link set eth0 mtu 9000 up",
		"ip addr add 10.77.0.2/24 dev eth0",
		"ip -6 addr add fd00:77::2/64 dev eth0 nodad",
		"rdma link add rxe0 type rxe netdev eth0",
	} {
		args := strings.Fields(line)
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", line, err, out)
		}
	}
	return nil
}

func mounts() error {
	for _, m := range []struct{ kind, dir string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"devpts", "/dev/pts"},
		{"tmpfs", "/dev/shm"}, {"tmpfs", "/tmp"}, {"tmpfs", "/run"},
	} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil && err != unix.EBUSY {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	return nil
}

// modules loads the kernel modules. One that this kernel cannot use, such as a
// driver of instructions that the processor does not have, is left out.
func modules() error {
	f, err := os.Open(moduleList)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		image, err := os.ReadFile("/modules/" + sc.Text())
		if err != nil {
			return err
		}
		switch err := unix.InitModule(image, ""); err {
		case nil, unix.EEXIST, unix.ENODEV:
		default:
			return fmt.Errorf("load module %s: %w", sc.Text(), err)
		}
	}
	return nil
}

// awaitInterface waits for a network interface: its driver creates it a moment
// after loading.
func awaitInterface(name string) error {
	for range 500 {
		if _, err := os.Stat("/sys/class/net/" + name); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("no network interface %s", name)
}
