package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/softhca/softhca/ib"
	"github.com/softhca/softhca/internal/broker"
	"github.com/softhca/softhca/internal/device"
	"github.com/softhca/softhca/internal/libraries"
	"github.com/softhca/softhca/internal/sysfs"
	"github.com/softhca/softhca/verbs"
)

// CheckDevice returns an error if the adapter's name cannot be a name in /sys.
func (o *Options) CheckDevice() error { return (&sysfs.Description{Name: o.Device}).Check() }

// Run runs the program in place of this process. It returns only on failure, with an
// Error.
func (o *Options) Run(ctx context.Context) error {
	path, env, err := o.find(ctx)
	if err != nil {
		return err
	}
	// Restore the signal actions from the start of this command.
	signal.Reset()
	err = unix.Exec(path, o.Program, env)
	if errors.Is(err, unix.ENOEXEC) { // a script without an interpreter line
		err = unix.Exec("/bin/sh", append([]string{"sh", path}, o.Program[1:]...), env)
	}
	return notRun(fmt.Errorf("%s: %w", path, err))
}

// find finds the program and returns its path and environment. The program inherits
// the files that must stay open while it runs.
func (o *Options) find(ctx context.Context) (path string, env []string, err error) {
	if path, err = exec.LookPath(o.Program[0]); err != nil {
		return "", nil, notRun(notFound(o.Program[0], err))
	}
	p, err := inspect(path)
	if err != nil {
		return "", nil, &Error{CodeCannot, err}
	}
	for _, w := range p.warnings {
		o.Say("softhca: %s", w)
	}
	env, kept, err := o.prepare(ctx, p)
	if err == nil {
		err = inherit(kept)
	}
	if err != nil {
		return "", nil, &Error{CodeFailed, err}
	}
	return path, env, nil
}

// notFound returns an error for the user about a program that cannot be found or run.
func notFound(name string, err error) error {
	words := errors.Unwrap(err)
	if where := (*fs.PathError)(nil); errors.As(err, &where) {
		words = where.Err
	}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%q: %w: is it installed?", name, words)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%q: %w: is it a program, and executable?", name, words)
	default:
		return fmt.Errorf("%q: %w", name, words)
	}
}

// notRun adds the exit code of shells to an error of finding or starting a program.
func notRun(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &Error{CodeNotFound, err}
	}
	return &Error{CodeCannot, err}
}

// prepare returns the program's environment, and the files that must stay open while
// it runs.
func (o *Options) prepare(ctx context.Context, p *program) (env []string, kept []*os.File, err error) {
	dir, err := o.libraries(ctx)
	if err != nil {
		return nil, nil, err
	}
	env, err = overLibraries(o.Env, dir)
	if err == nil {
		err = o.fits(p, env)
	}
	if err != nil {
		return nil, nil, err
	}
	if p.sanitized {
		env = besideSanitizer(env)
	}
	env = forget(env, AddrEnv, verbs.GUIDEnv)
	if err := os.Setenv(verbs.GUIDEnv, get(env, verbs.GUIDEnv)); err != nil { // the adapter's identity depends on it
		return nil, nil, err
	}
	asked, from := o.Addrs, "--addr"
	if named := strings.TrimSpace(get(env, AddrEnv)); len(asked) == 0 && named != "" {
		asked, from = strings.Split(named, ";"), AddrEnv
	}
	all, kept, err := o.adapters(asked)
	if err != nil && len(asked) > 0 {
		err = fmt.Errorf("%s %s: %w", from, strings.Join(asked, ";"), err)
	}
	if err != nil {
		return nil, nil, err
	}
	image, err := sysfs.Show(all...)
	if err != nil {
		return nil, nil, err
	}
	addrs := make([]string, len(all))
	for i := range all {
		addrs[i] = list(all[i].Identity.Addrs)
	}
	for _, v := range append([]Var{
		{AddrEnv, strings.Join(addrs, ";")}, {DeviceEnv, o.Device}, {SysfsEnv, image.Root},
	}, o.Set...) {
		env = set(env, v.Name, v.Value)
	}
	env = watchingMemory(env, dir)
	var chosen []string
	if len(asked) == 0 {
		chosen = append(chosen, addrs...)
	}
	first := &all[0].Identity
	if !first.GUIDStays { // otherwise the program's libraries find the GUID themselves
		guid := ib.GUID(first.NodeGUID).String()
		env, chosen = set(env, verbs.GUIDEnv, guid), append(chosen, guid)
	}
	if len(chosen) > 0 {
		env = set(env, ChosenEnv, strings.Join(chosen, " "))
	}
	o.Log.Info("run", "device", o.Device, "addr", strings.Join(addrs, ";"), "guid", ib.GUID(first.NodeGUID),
		"libraries", dir, "sysfs", image.Root)
	return env, append(kept, image.Lock), nil
}

// libraries returns the directory with the libraries.
func (o *Options) libraries(ctx context.Context) (string, error) {
	if dir, ok := libraries.Installed(o.Command); ok {
		return dir, nil
	}
	if tree, ok := libraries.Tree(); ok {
		return libraries.InTree(ctx, tree, lines(o.Say))
	}
	return "", libraries.ErrNotFound
}

// lines is a writer of whole lines.
type lines func(format string, args ...any)

var _ io.Writer = lines(nil)

// Write passes b to the function.
func (l lines) Write(b []byte) (int, error) {
	l("%s", strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

// list returns addresses in the form of the environment.
func list(addrs []netip.Addr) string {
	words := make([]string, len(addrs))
	for i, a := range addrs {
		words[i] = a.String()
	}
	return strings.Join(words, ",")
}

// maxAdapters is the maximum number of adapters of a program, as in libibverbs.
const maxAdapters = 16

// adapters returns the adapters that the program will find, each on addresses or an
// interface, or else one on a free address, and the files that reserve the addresses.
func (o *Options) adapters(asked []string) (all []sysfs.Description, reserved []*os.File, err error) {
	if len(asked) > maxAdapters {
		return nil, nil, fmt.Errorf("%d adapters: a program can have %d: %w", len(asked), maxAdapters, ib.EINVAL)
	}
	if len(asked) == 0 {
		free, file, notice, err := freeAddress()
		if err != nil {
			return nil, nil, err
		}
		if notice != "" {
			o.Say("%s", notice)
		}
		asked, reserved = []string{free.String()}, []*os.File{file}
	}
	owners := make(map[netip.Addr]string)
	for i, addr := range asked {
		d := sysfs.Description{Name: numbered(o.Device, i)}
		d.Identity, err = device.Identify(device.Config{Addr: strings.TrimSpace(addr), Adapter: i, Env: device.ProcessEnvironment()})
		if err != nil {
			return nil, nil, err
		}
		for _, a := range d.Identity.Addrs {
			if other, ok := owners[a]; ok {
				return nil, nil, fmt.Errorf("%v is an address of %s and of %s: an address belongs to one adapter: %w", a, other, d.Name, ib.EINVAL)
			}
			owners[a] = d.Name
		}
		if i == 0 && !d.Identity.GUIDStays { // the GUIDs of the others count on from the first
			if err := os.Setenv(verbs.GUIDEnv, ib.GUID(d.Identity.NodeGUID).String()); err != nil {
				return nil, nil, err
			}
		}
		if len(reserved) == 0 || i > 0 {
			reserved = append(reserved, o.look(d.Identity.Addrs)...)
		}
		all = append(all, d)
	}
	return all, reserved, nil
}

// numbered returns the name of an adapter by its number and the name of the first one.
func numbered(name string, number int) string {
	base := strings.TrimRight(name, "0123456789")
	from, err := strconv.ParseUint(cmp.Or(name[len(base):], "0"), 10, 32)
	if number == 0 || err != nil {
		return name
	}
	return base + strconv.FormatUint(from+uint64(number), 10)
}

// look reports which of the requested addresses are taken, and returns the files that
// reserve the addresses.
func (o *Options) look(addrs []netip.Addr) (reserved []*os.File) {
	env := device.ProcessEnvironment()
	secret := env.Secret()
	for _, a := range addrs {
		if err := broker.Look([]netip.Addr{a}, true, secret); errors.Is(err, unix.EADDRINUSE) {
			o.Say("softhca: %v; programs that only list the adapter work, but opening it fails", busy(a))
		}
		// Reserve the address, so that no other run chooses it. If another run has done so,
		// the check above reports its adapter.
		if f, err := reserve(a); err == nil {
			reserved = append(reserved, f)
		}
	}
	return reserved
}

// firstKept is the first descriptor of files that the program inherits: high, to leave the
// low ones to the program.
const firstKept = 900

// inherit keeps files open in the program that replaces this one.
func inherit(files []*os.File) error {
	for _, f := range files {
		_, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, firstKept)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EMFILE) { // above the limit of descriptors
			_, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD, 0)
		}
		if err != nil {
			return fmt.Errorf("keep %s open: %w", f.Name(), err)
		}
	}
	return nil
}
