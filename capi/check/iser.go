//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The names of the target and of the initiator: tgtd admits only initiators that were added by
// name.
const (
	targetName    = "iqn.2026-01.org.softhca:disk"
	initiatorName = "iqn.2026-01.org.softhca:check"
)

// initiators are programs that read and write the disk. iscsi-test-cu checks the data that it
// reads, and that the disk refuses invalid commands.
var initiators = []string{
	"iscsi-inq", "iscsi-readcapacity16", "iscsi-perf -t 2",
	"iscsi-test-cu -d -n -f -t SCSI.Write10.Simple", "iscsi-test-cu -d -n -f -t SCSI.WriteVerify10.Simple",
	"iscsi-test-cu -d -n -f -t SCSI.Read10.BeyondEol", "iscsi-test-cu -d -n -f -t SCSI.CompareAndWrite.Simple",
}

// diskCase is the name of the case of a disk that tgtd exports, and that initiators of libiscsi access
// by iSER.
const diskCase = "tgtd and libiscsi's iscsi-perf, iscsi-test-cu over iser://SERVER"

const diskSize = 16 << 20

// serve runs the target on the first address and, one after the other, the initiators on the second.
func (s *stand) serve(ctx context.Context, addrs [2]string) (string, error) {
	if _, err := exec.LookPath("tgtd"); err != nil {
		return "skipped: tgtd is missing: `apt-get install tgt` installs it, and starts it as a service of this machine", nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	image := filepath.Join(s.lib, "disk.img")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, diskSize)); err != nil {
		return "", err
	}
	socket := "TGT_IPC_SOCKET=" + filepath.Join(s.lib, "tgtd")
	var served bytes.Buffer
	target := s.launched(ctx, addrs[:1], &served, "tgtd", "-f", "--iscsi", "portal="+addrs[0]+":3261", "--iser", "port=3260")
	target.Env = append(target.Env, socket)
	if err := target.Start(); err != nil {
		return "", err
	}
	err := target.opens(addrs[0])
	if err == nil {
		err = prepareDisk(ctx, socket, image)
	}
	for _, i := range initiators {
		if err == nil {
			err = s.initiate(ctx, addrs, i)
		}
	}
	if serr := target.end(true, err); err != nil || serr != nil {
		return "", fmt.Errorf("%v\ntgtd: %v: %s", err, serr, last(served.String()))
	}
	return "ok", nil
}

// prepareDisk configures a running target to serve an image.
func prepareDisk(ctx context.Context, socket, image string) error {
	for _, line := range []string{
		"target --op new --tid 1 --targetname " + targetName,
		"logicalunit --op new --tid 1 --lun 1 -b " + image,
		"target --op bind --tid 1 -I ALL",
		"target --op bind --tid 1 -Q " + initiatorName,
	} {
		cmd := exec.CommandContext(ctx, "tgtadm", append([]string{"--lld", "iser", "--mode"}, strings.Fields(line)...)...)
		cmd.Env = append(os.Environ(), socket)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("tgtadm: %s: %w: %s", line, err, out)
		}
	}
	return nil
}

// initiatorLimit is the time limit of an initiator. Those of libiscsi have none.
const initiatorLimit = 20 * time.Second

// initiate runs one initiator.
func (s *stand) initiate(ctx context.Context, addrs [2]string, line string) error {
	ctx, cancel := context.WithTimeout(ctx, initiatorLimit)
	defer cancel()
	var said bytes.Buffer
	args := append(strings.Fields(line), "-i", initiatorName, "iser://"+addrs[0]+":3260/"+targetName+"/1")
	if err := s.launched(ctx, addrs[1:], &said, args...).Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", line, err, last(said.String()))
	}
	return nil
}
