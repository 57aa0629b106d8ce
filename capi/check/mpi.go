//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mpi is an implementation of MPI, with Debian's names of its programs.
type mpi struct {
	section, compiler, launcher string
	rank                        string // the environment variable with a process's rank
	options, env                []string
}

var implementations = []mpi{
	{
		section: "openmpi-bin", compiler: "mpicc.openmpi", launcher: "mpirun.openmpi", rank: "OMPI_COMM_WORLD_RANK",
		// Without osc, Open MPI 5 has no windows for adapters that it does not know.
		options: []string{"--oversubscribe", "--mca", "pml", "ucx", "--mca", "osc", "ucx"},
		// In the namespace the programs run as root.
		env: []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"},
	},
	{
		section: "mpich", compiler: "mpicc.mpich", launcher: "mpirun.mpich", rank: "PMI_RANK",
		env: []string{"MPIR_CVAR_NOLOCAL=1"}, // otherwise MPICH uses shared memory too, as UCX does
	},
}

// job is a run of MPI over UCX. The ranks reach each other only over the given transports. They
// share one address, or alternate between two.
type job struct {
	mpi   mpi
	ranks int
	tls   string
	addrs []string
}

// jobs returns the jobs of all implementations.
func jobs() []job {
	const all, datagrams = "rc_verbs,ud_verbs,self", "ud_verbs,self"
	var js []job
	for _, m := range implementations {
		for _, addrs := range [][]string{addrs4[:], addrs4[:1]} {
			js = append(js, job{m, 2, all, addrs}, job{m, 8, all, addrs}, job{m, 32, all, addrs}, job{m, 8, datagrams, addrs})
		}
	}
	return js
}

// exchanged names the operations of the ranks.
const exchanged = "ring, all-reduce, all-to-all, one-sided"

func (j *job) name() string {
	name := fmt.Sprintf("UCX_TLS=%s %s -np %d: %s", j.tls, j.mpi.launcher, j.ranks, exchanged)
	if len(j.addrs) == 1 {
		name += onOne
	}
	return name
}

// exchanges is the program of the ranks, which exchange data and check the results.
const exchanges = "mpi/exchange.c"

// runJob compiles the program and runs it.
func (s *stand) runJob(ctx context.Context, j *job) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	program, err := s.compile(ctx, j.mpi.compiler, exchanges)
	if err != nil {
		return err
	}
	var said bytes.Buffer
	// Each rank chooses its address by its number, as the mpirun of Debian 13 crashes when it
	// gets two commands.
	choose := fmt.Sprintf("shift $(($%s %% %d)); exec %s run --addr $1 -- %s", j.mpi.rank, len(j.addrs), filepath.Join(s.lib, "softhca"), program)
	args := slices.Concat([]string{j.mpi.launcher}, j.mpi.options, []string{"-np", strconv.Itoa(j.ranks), "sh", "-c", choose, "sh"}, j.addrs)
	cmd := newProgram(ctx, &said, args...)
	// 32 ranks spin on two processors: one may wait for a processor longer than the default 30 s.
	cmd.Env = append(cmd.Env, "UCX_TLS="+j.tls, "UCX_NET_DEVICES=softhca0:1", "UCX_UD_TIMEOUT=3m")
	cmd.Env = append(cmd.Env, j.mpi.env...)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", j.mpi.launcher, err, last(said.String()))
	}
	if want := fmt.Sprintf("%d ranks: %s: ok", j.ranks, exchanged); !strings.Contains(said.String(), want) {
		return fmt.Errorf("there is no %q in its output: %s", want, last(said.String()))
	}
	return nil
}
