package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
)

func main() {
	if n := len(os.Args); n != 2 && n != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/tools/install PREFIX [DESTDIR]   (in the root of the source tree)")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		os.Exit(1)
	}
}

// run installs everything and prints the next steps for the user.
func run(ctx context.Context, args []string) error {
	prefix, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	i := &installation{tree: ".", root: prefix, out: os.Stdout}
	if len(args) == 2 {
		i.root = filepath.Join(args[1], prefix)
	}
	if err := i.install(ctx); err != nil {
		return err
	}
	if len(args) == 1 {
		i.say("%s", next(prefix, filepath.SplitList(os.Getenv("PATH"))))
	}
	return nil
}

// next returns the next steps after an installation into prefix.
func next(prefix string, path []string) string {
	text := "softhca is installed. Next:\n"
	if bin := filepath.Join(prefix, "bin"); !slices.Contains(path, bin) {
		text += fmt.Sprintf("  export PATH=%q    the shell finds softhca, and man its pages; put it into ~/.profile to keep it\n", bin+":$PATH")
	}
	return text + `  softhca demo                     see two adapters talk
  softhca run -- ibv_devinfo -v    run a program that uses RDMA
  man softhca                      read about all commands
A new shell completes commands and options: bash with the package bash-completion; zsh if the directory
` + filepath.Join(prefix, zshDir) + " is in its fpath before compinit; fish as it is."
}
