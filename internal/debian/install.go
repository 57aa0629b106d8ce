package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Needed are packages that this machine needs: for each the name of a program in PATH that it
// contains, or the absolute path of a file.
type Needed map[string]string

// Missing returns the sorted names of the packages whose program or file this machine lacks.
func (n Needed) Missing() []string {
	var names []string
	for name, file := range n {
		var err error
		if strings.HasPrefix(file, "/") {
			_, err = os.Stat(file)
		} else {
			_, err = exec.LookPath(file)
		}
		if err != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Install installs the missing packages if the user is root on Debian or a system derived from
// it, and writes their names and the output of apt-get to w. For other users and on other
// systems, its error has the command that installs them and wraps errors.ErrUnsupported.
func (n Needed) Install(ctx context.Context, w io.Writer) error {
	names := n.Missing()
	if len(names) == 0 {
		return nil
	}
	list := strings.Join(names, " ")
	command := "apt-get update && apt-get install -y --no-install-recommends " + list
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("packages are missing: on Debian or Ubuntu install them as root with `%s`: %w", command, errors.ErrUnsupported)
	}
	if _, err := fmt.Fprintln(w, "installing Debian's packages", list); err != nil {
		return err
	}
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, names...)} {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = w, w
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w: check the network and the sources of apt, or install the packages in another way: %s", args[0], err, list)
		}
	}
	if left := n.Missing(); len(left) > 0 {
		return fmt.Errorf("apt-get installed the packages, but these still lack their files: %s", strings.Join(left, " "))
	}
	return nil
}
