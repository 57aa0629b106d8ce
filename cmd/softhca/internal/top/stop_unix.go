//go:build unix

package top

import (
	"errors"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// jobControl stops this process and learns that it goes on.
type jobControl struct {
	stops chan os.Signal // requests of other processes to stop
	goOn  chan os.Signal
}

// newJobControl takes the signals of job control until close.
func newJobControl() *jobControl {
	j := &jobControl{make(chan os.Signal, 1), make(chan os.Signal, 1)}
	signal.Notify(j.stops, unix.SIGTSTP)
	signal.Notify(j.goOn, unix.SIGCONT)
	return j
}

func (j *jobControl) close() {
	signal.Stop(j.stops)
	signal.Stop(j.goOn)
}

// stopWait bounds the wait for the kernel to stop this process.
const stopWait = 200 * time.Millisecond

// stop stops this process, or all of its job, until it is told to go on. It does nothing without a
// shell that could let it go on: such shells give each job a process group of its own.
func (j *jobControl) stop(job bool) error {
	session, err := unix.Getsid(0)
	if err != nil || session == unix.Getpgrp() {
		return err
	}
	signal.Stop(j.stops) // Go's handler then ignores SIGTSTP, so SIGSTOP stops this process
	defer signal.Notify(j.stops, unix.SIGTSTP)
	if job {
		err = unix.Kill(0, unix.SIGTSTP)
	}
	err = errors.Join(err, unix.Kill(unix.Getpid(), unix.SIGSTOP))
	wait := time.NewTimer(stopWait)
	defer wait.Stop()
	select {
	case <-j.goOn:
	case <-wait.C:
	}
	return err
}
