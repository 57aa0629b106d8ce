//go:build linux

package image

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/softhca/softhca/internal/debian"
)

// programs are the packages whose programs the guest has.
var programs = []string{
	"busybox-static", "dash", "libc6", "libgcc-s1", "ibverbs-providers", "ibverbs-utils", "perftest", "rdmacm-utils", "iproute2", "tcpdump", "strace",
}

// bookworm returns the Debian archive with the packages of guests. It ignores the host's own
// suites.
func bookworm(dir string, say func(string, ...any)) *debian.Archive {
	const suite = "bookworm"
	return &debian.Archive{
		Dir: dir, Say: say,
		Sources: debian.Main(suite) + debian.Main(suite+"-updates") + debian.Main(suite+"-backports") + debian.Security(suite),
		Advice:  "Without a network, name the cache of a machine that has prepared the guests with -cache",
	}
}

// kernelName matches the dependency of linux-image-amd64 on a kernel package.
var kernelName = regexp.MustCompile(`(?m)^\s*Depends: (linux-image-[0-9]\S*)`)

// kernelPackage returns the name of the package with the suite's kernel. The
// one for clouds has no rdma_rxe.
func kernelPackage(ctx context.Context, a *debian.Archive, suite string) (string, error) {
	out, err := a.Query(ctx, suite, "depends", "linux-image-amd64")
	if err == nil {
		if m := kernelName.FindSubmatch(out); m != nil {
			return string(m[1]), nil
		}
		err = fmt.Errorf("apt-cache: the lists of packages have no linux-image-amd64")
	}
	if suite != "" {
		err = fmt.Errorf("%w\nThe kernel comes from Debian's suite %s, which the archive may no longer have; -kernel 6.1 does not need it", err, suite)
	}
	return "", err
}

// unused are packages that others need only at installation, which never
// happens here.
var unused = regexp.MustCompile(`^(perl|libperl|udev_|passwd_|dpkg_|libpam|adduser_|debconf_|tar_|debianutils_|usrmerge_|libsemanage)`)

// closure fetches the programs' packages and all that they depend on, and
// returns the files.
func closure(ctx context.Context, a *debian.Archive) ([]string, error) {
	debs, err := a.Fetch(ctx, "", append([]string{"install", "--no-install-recommends", "--download-only"}, programs...)...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(debs, func(deb string) bool { return unused.MatchString(filepath.Base(deb)) }), nil
}
