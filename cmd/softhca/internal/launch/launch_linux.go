package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/sysfs"
	"github.com/softhca/softhca/verbs"
)

// Run runs the program in place of this process. It returns only if it cannot: an
// Error.
func (o *Options) Run(ctx context.Context) error {
	path, err := exec.LookPath(o.Program[0])
	if err != nil {
		return notRun(err)
	}
	p, err := inspect(path)
	if err != nil {
		return &Error{CodeCannot, err}
	}
	for _, w := range p.warnings {
		o.Say("softhca: %s", w)
	}
	env, kept, err := o.prepare(ctx, p)
	if err == nil {
		err = inherit(kept)
	}
	if err != nil {
		return &Error{CodeFailed, err}
	}
	// Signals go back to what they were when this command began.
	signal.Reset()
	err = unix.Exec(path, o.Program, env)
	if errors.Is(err, unix.ENOEXEC) { // a script that does not say for whom
		err = unix.Exec("/bin/sh", append([]string{"sh", path}, o.Program[1:]...), env)
	}
	return notRun(fmt.Errorf("%s: %w", path, err))
}

// notRun gives an error of finding or starting a program the exit code that shells
// give it.
func notRun(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &Error{CodeNotFound, err}
	}
	return &Error{CodeCannot, err}
}

// prepare returns the program's environment, and the files that have to stay open as
// long as it runs.
func (o *Options) prepare(ctx context.Context, p *program) (env []string, kept []*os.File, err error) {
	dir, err := o.libraries(ctx)
	if err != nil {
		return nil, nil, err
	}
	env, err = overLibraries(o.Env, dir)
	if err != nil {
		return nil, nil, err
	}
	if p.sanitized {
		env = besideSanitizer(env)
	}
	env = forget(env, AddrEnv, verbs.GUIDEnv)
	if err := os.Setenv(verbs.GUIDEnv, get(env, verbs.GUIDEnv)); err != nil { // where the identity comes from
		return nil, nil, err
	}
	addr := cmp.Or(o.Addr, strings.TrimSpace(get(env, AddrEnv)))
	identity, reserved, err := o.adapter(addr)
	if err != nil {
		return nil, nil, err
	}
	picture, err := sysfs.Show(&sysfs.Description{Name: o.Device, Identity: identity})
	if err != nil {
		return nil, nil, err
	}
	addrs := make([]string, len(identity.Addrs))
	for i, a := range identity.Addrs {
		addrs[i] = a.String()
	}
	for _, v := range append([]Var{
		{AddrEnv, strings.Join(addrs, ",")}, {DeviceEnv, o.Device}, {SysfsEnv, picture.Root},
	}, o.Set...) {
		env = set(env, v.Name, v.Value)
	}
	var chosen []string
	if addr == "" {
		chosen = append(chosen, addrs...)
	}
	if !identity.GUIDStays { // else the program's libraries find it themselves
		guid := ib.GUID(identity.NodeGUID).String()
		env, chosen = set(env, verbs.GUIDEnv, guid), append(chosen, guid)
	}
	if len(chosen) > 0 {
		env = set(env, ChosenEnv, strings.Join(chosen, " "))
	}
	o.Log.Info("run", "device", o.Device, "addr", strings.Join(addrs, ","), "guid", ib.GUID(identity.NodeGUID),
		"libraries", dir, "sysfs", picture.Root)
	return env, append(reserved, picture.Lock), nil
}

// libraries returns the directory with the libraries.
func (o *Options) libraries(ctx context.Context) (string, error) {
	if dir, ok := libraries.Installed(o.Command); ok {
		return dir, nil
	}
	if tree, ok := libraries.Tree(); ok {
		return libraries.Cached(ctx, tree, lines(o.Say))
	}
	return "", libraries.ErrNotFound
}

// lines is a writer of whole lines.
type lines func(format string, args ...any)

var _ io.Writer = lines(nil)

// Write says what is in b.
func (l lines) Write(b []byte) (int, error) {
	l("%s", strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

// adapter returns which adapter the program will find on addresses or an interface, or
// else on a free address, and what reserves these.
func (o *Options) adapter(addr string) (device.Identity, []*os.File, error) {
	if addr == "" {
		free, reserved, err := freeAddress()
		if err != nil {
			return device.Identity{}, nil, err
		}
		identity, err := device.Identify(device.Config{Addr: free.String()})
		return identity, []*os.File{reserved}, err
	}
	identity, err := device.Identify(device.Config{Addr: addr})
	if err != nil {
		return identity, nil, err
	}
	var reserved []*os.File
	for _, a := range identity.Addrs {
		if err := tryPort(a); errors.Is(err, unix.EADDRINUSE) {
			o.Say("softhca: %v; programs that only look at the adapter work, one that opens it fails", busy(a))
		}
		// Nobody is to be given an address that was asked for here. If somebody was
		// already, the port tells.
		if f, err := reserve(a); err == nil {
			reserved = append(reserved, f)
		}
	}
	return identity, reserved, nil
}

// firstKept is where files go that the program inherits, so that they are not in the
// way of those that it opens.
const firstKept = 900

// inherit keeps files open in the program that takes the place of this one.
func inherit(files []*os.File) error {
	for _, f := range files {
		_, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, firstKept)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EMFILE) { // so many are not allowed
			_, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD, 0)
		}
		if err != nil {
			return fmt.Errorf("keep %s open: %w", f.Name(), err)
		}
	}
	return nil
}
