package main

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/softhca/softhca/cmd/softhca/internal/devices"
)

func newDevicesCommand(g *globals) *cobra.Command {
	asJSON, verbose := false, false
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "Describe the adapters of this host and their ports",
		Long: `devices describes adapters as ibv_devinfo does: the one on --addr, or one for each network interface that is up. It
opens no adapter, and does not disturb running processes. It lists the processes of this user that share an adapter. An
adapter is not usable if a process of another user, or another program, has its address.

-v also says whether packets to adapters of this user on this host take shared memory (--wire auto, the default on Linux),
and if not, why; for each process that uses shared memory, it says with how many others.

The exit code is 1 if no adapter is usable.`,
		Example: `  softhca devices
  softhca devices -v --addr 127.0.0.1,127.0.0.2
  softhca devices -v --wire udp
  softhca devices --addr eth0 --transport raw --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := probeAll(cmd, g)
			if found == nil {
				return err
			}
			if !asJSON {
				return errors.Join(devices.Text(cmd.OutOrStdout(), found, verbose), err)
			}
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetIndent("", "  ")
			return errors.Join(enc.Encode(found), err)
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "also print the abilities of each adapter")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

// probeAll describes the adapters that the flags name. If none of them is usable, it also
// returns an error; the descriptions have the reasons.
func probeAll(cmd *cobra.Command, g *globals) ([]devices.Device, error) {
	log, err := g.logger(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	cfg := g.config(log)
	names := []string{g.addr}
	if g.addr == "" {
		if names, err = devices.Names(); err != nil {
			return nil, err
		}
	}
	var found []devices.Device
	usable := false
	for _, name := range names {
		cfg.Addr = name
		d, err := devices.Probe(name, cfg)
		usable = usable || err == nil
		found = append(found, d)
	}
	if !usable {
		return found, errors.New("devices: no usable adapter")
	}
	return found, nil
}
