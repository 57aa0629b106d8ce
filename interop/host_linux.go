package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/softhca/softhca/interop/guest"
	"github.com/softhca/softhca/interop/netns"
)

// tools are the programs that a run needs, and Debian's packages that have
// them.
var tools = []struct{ program, pkg string }{
	{guest.QEMU, "qemu-system-x86"}, {"apt-get", "apt"}, {"apt-cache", "apt"}, {"dpkg-deb", "dpkg"},
	{"xz", "xz-utils"}, {"zstd", "zstd"}, {"gzip", "gzip"}, {"ip", "iproute2"}, {"gcc", "gcc"},
}

// files that a run needs, and Debian's packages that have them.
var hostFiles = []struct{ path, pkg string }{
	{"/usr/share/keyrings/debian-archive-keyring.gpg", "debian-archive-keyring"},
	{"/usr/share/seabios/bios-256k.bin", "seabios"},
	{"/usr/include/infiniband/verbs.h", "libibverbs-dev"},
}

// prepareHost sees to it that the host has what a run needs: as root where
// there is apt-get it installs what is missing, else it says so.
func prepareHost(ctx context.Context) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("the guests are x86-64 and run ours beside them: this machine is %s", runtime.GOARCH)
	}
	if missing := missingPackages(); len(missing) > 0 {
		install := "apt-get install " + strings.Join(missing, " ")
		if _, err := exec.LookPath("apt-get"); err != nil || os.Getuid() != 0 {
			return fmt.Errorf("this host lacks programs; as root on Debian: %s", install)
		}
		say("installing what is missing here: %s", strings.Join(missing, " "))
		for _, args := range [][]string{{"update", "-q"}, append([]string{"install", "-q", "-y", "--no-install-recommends"}, missing...)} {
			cmd := exec.CommandContext(ctx, "apt-get", args...)
			cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
			}
		}
		if missing := missingPackages(); len(missing) > 0 {
			return errors.New("apt-get installed packages, yet still missing: " + strings.Join(missing, " "))
		}
	}
	return netns.Check()
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
