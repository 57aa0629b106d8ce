package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/manpage"
)

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write a manual page of each command",
		Long: `man writes the pages softhca.1, softhca-decode.1 and so on into DIRECTORY, which it creates if it does not exist.
make install installs the same pages where man finds them.`,
		Example: `  softhca man ~/.local/share/man/man1     then: man softhca-decode`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("man needs one DIRECTORY, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			err := os.MkdirAll(args[0], 0o755)
			if err == nil {
				err = writePages(cmd.Root(), args[0])
			}
			if err != nil {
				return fmt.Errorf("man: %w", err)
			}
			return nil
		},
	}
}

// writePages writes the pages of a command and of all its subcommands.
func writePages(cmd *cobra.Command, dir string) error {
	if err := writePage(cmd, filepath.Join(dir, manpage.Name(cmd)+".1")); err != nil {
		return err
	}
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if err := writePages(c, dir); err != nil {
			return err
		}
	}
	return nil
}

// writePage writes a page without the options that the command refuses.
func writePage(cmd *cobra.Command, name string) error {
	for _, f := range ignored(cmd) {
		f.Hidden = true
		defer func() { f.Hidden = false }()
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(manpage.Write(f, cmd), f.Close())
}
