package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/softhca/softhca/internal/debian"
	"github.com/softhca/softhca/interop/guest"
	"github.com/softhca/softhca/interop/netns"
)

// tools are the programs that a run needs, and Debian's packages that have
// them.
var tools = []struct{ program, pkg string }{
	{guest.QEMU, "qemu-system-x86"}, {"apt-get", "apt"}, {"apt-cache", "apt"}, {"dpkg-deb", "dpkg"},
	{"xz", "xz-utils"}, {"zstd", "zstd"}, {"gzip", "gzip"}, {"ip", "iproute2"}, {"gcc", "gcc"},
	{"ibv_rc_pingpong", "ibverbs-utils"}, {"ib_write_bw", "perftest"}, {"rping", "rdmacm-utils"},
}

// files that a run needs, and Debian's packages that have them.
var hostFiles = []struct{ path, pkg string }{
	{debian.Keyring, "debian-archive-keyring"},
	{"/usr/share/seabios/bios-256k.bin", "seabios"},
	{"/usr/include/stdio.h", "libc6-dev"},
	{"/usr/include/infiniband/verbs.h", "libibverbs-dev"},
}

// prepareHost checks that the host has the programs and files that a run needs:
// as root with apt-get it installs missing packages, else it names them.
func prepareHost(ctx context.Context) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("the guests are x86-64 and run ours beside them: this machine is %s", runtime.GOARCH)
	}
	if missing := missingPackages(); len(missing) > 0 {
		if err := canInstall(missing); err != nil {
			return err
		}
		say("installing what is missing here: %s", strings.Join(missing, " "))
		for _, args := range [][]string{{"update", "-q"}, append([]string{"install", "-q", "-y", "--no-install-recommends"}, missing...)} {
			cmd := exec.CommandContext(ctx, "apt-get", args...)
			cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("apt-get %s: %w\n%sMake this work, with the sources and the network of this host, or install the packages in another way", strings.Join(args, " "), err, out)
			}
		}
		if missing := missingPackages(); len(missing) > 0 {
			return errors.New("apt-get installed packages, yet still missing: " + strings.Join(missing, " "))
		}
	}
	return netns.Check()
}

// canInstall returns nil if missing packages can be installed here, else an
// error with advice.
func canInstall(missing []string) error {
	list := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this host has no apt-get: the guests are made of Debian's packages, so run this on Debian or what comes from it, "+
			"perhaps in a container (podman run --device /dev/net/tun --cap-add NET_ADMIN,SYS_ADMIN debian:bookworm). Missing are, by their names there: %s", list)
	}
	if os.Getuid() != 0 {
		return fmt.Errorf("programs are missing here, and only root can install them: sudo apt-get install --no-install-recommends %s", list)
	}
	return nil
}

// missingPackages returns the packages that the host lacks.
func missingPackages() []string {
	var missing []string
	add := func(pkg string, err error) {
		if err != nil && (len(missing) == 0 || missing[len(missing)-1] != pkg) {
			missing = append(missing, pkg)
		}
	}
	for _, t := range tools {
		_, err := exec.LookPath(t.program)
		add(t.pkg, err)
	}
	for _, f := range hostFiles {
		_, err := os.Stat(f.path)
		add(f.pkg, err)
	}
	return missing
}
