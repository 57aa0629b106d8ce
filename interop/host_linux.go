package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/softhca/softhca/internal/debian"
	"github.com/softhca/softhca/interop/guest"
	"github.com/softhca/softhca/interop/netns"
)

// needed are the packages that a run needs.
var needed = debian.Needed{
	"qemu-system-x86": guest.QEMU, "seabios": "/usr/share/seabios/bios-256k.bin",
	"apt": "apt-get", "dpkg": "dpkg-deb",
	"debian-archive-keyring": debian.Keyring,
	"xz-utils":               "xz", "zstd": "zstd", "gzip": "gzip", "iproute2": "ip",
	"gcc": "gcc", "libc6-dev": "/usr/include/stdio.h",
	"libibverbs-dev": "/usr/include/infiniband/verbs.h",
	"ibverbs-utils":  "ibv_rc_pingpong", "perftest": "ib_write_bw", "rdmacm-utils": "rping",
}

// errUnable means that this machine cannot emulate the guests.
var errUnable = errors.New("this machine cannot run the guests")

// prepareHost installs the packages that a run needs, or says how, and checks that this host can
// run the guests.
func prepareHost(ctx context.Context) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("%w: they are x86-64, as our programs in them must be, and it is %s", errUnable, runtime.GOARCH)
	}
	if err := needed.Install(ctx, os.Stderr); err != nil {
		return fmt.Errorf("%w\nThe guests are made of Debian's packages. On other systems use a container: podman run --device /dev/net/tun --cap-add NET_ADMIN,SYS_ADMIN debian:bookworm", err)
	}
	if err := netns.Check(); err != nil {
		return fmt.Errorf("%w: %w", errUnable, err)
	}
	return nil
}
