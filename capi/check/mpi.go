//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// job is a run of Open MPI over UCX, of so many ranks, which share one address and reach
// each other over these transports only.
type job struct {
	ranks int
	tls   string
}

var jobs = []job{{2, "rc_verbs,ud_verbs,self"}, {8, "rc_verbs,ud_verbs,self"}, {32, "rc_verbs,ud_verbs,self"}, {8, "ud_verbs,self"}}

func (j *job) name() string {
	return fmt.Sprintf("UCX_TLS=%s mpirun -np %d: ring, all-reduce, all-to-all", j.tls, j.ranks)
}

// exchanges is the program whose ranks talk to each other, and check what they get.
const exchanges = "capi/check/mpi/exchange.c"

// runJob compiles the program, and runs it.
func (s *stand) runJob(ctx context.Context, j *job) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	program := filepath.Join(s.lib, "exchange")
	if out, err := exec.CommandContext(ctx, "mpicc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, exchanges).CombinedOutput(); err != nil {
		return fmt.Errorf("mpicc: %w: %s", err, out)
	}
	var said bytes.Buffer
	cmd := s.launched(ctx, addrs4[:1], &said, "mpirun", "--oversubscribe", "-np", strconv.Itoa(j.ranks), "--mca", "pml", "ucx",
		"-x", "UCX_TLS="+j.tls, "-x", "UCX_NET_DEVICES=softhca0:1", program)
	// In the namespace it is root, who is nobody outside.
	cmd.Env = append(cmd.Env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("mpirun: %w: %s", err, last(said.String()))
	}
	if want := fmt.Sprintf("%d ranks: ring, all-reduce, all-to-all: ok", j.ranks); !strings.Contains(said.String(), want) {
		return fmt.Errorf("there is no %q in its output: %s", want, last(said.String()))
	}
	return nil
}
