package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version identifies the build.
type version struct {
	Version  string `json:"version"`            // of the module; "(devel)" if it was not built from a tagged one
	Revision string `json:"revision,omitempty"` // of the source, if it is known
	Time     string `json:"time,omitempty"`     // of the revision
	Modified bool   `json:"modified,omitempty"` // since the revision
	Go       string `json:"go"`                 // release that built it
	Platform string `json:"platform"`           // operating system and architecture
}

// newVersion returns the build information in the program.
func newVersion() version {
	v := version{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// String returns the version in one line.
func (v version) String() string {
	line := "softhca " + v.Version
	if v.Revision != "" {
		line += fmt.Sprintf(", revision %.12s of %s", v.Revision, v.Time)
	}
	if v.Modified {
		line += ", modified"
	}
	return fmt.Sprintf("%s, %s, %s", line, v.Go, v.Platform)
}

func newVersionCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and build of this command",
		Long: `version prints the version of the module, the revision from which it was built, whether files had been changed since,
the Go release and the platform. softhca --version prints the same line.`,
		Example: `  softhca version
  softhca version --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(newVersion())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), newVersion())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}
