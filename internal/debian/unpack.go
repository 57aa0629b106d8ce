//go:build linux

package debian

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Unpack unpacks the files of packages into dir. It runs none of their scripts.
func Unpack(ctx context.Context, debs []string, dir string) error {
	for _, deb := range debs {
		if err := run(ctx, "dpkg-deb", "-x", deb, dir); err != nil {
			return err
		}
	}
	return nil
}

// Field returns a field of a package, such as Version.
func Field(ctx context.Context, deb, name string) (string, error) {
	out, err := output(ctx, "dpkg-deb", "-f", deb, name)
	return strings.TrimSpace(string(out)), err
}

// output runs a program and returns what it prints.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return out, err
}

// run runs a program that says nothing when it succeeds.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
