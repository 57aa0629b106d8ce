//go:build unix

package top

import (
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

// stopWait bounds the wait for the kernel to stop this process, and so for a stop that does not
// happen because no shell could end it.
const stopWait = 200 * time.Millisecond

// stop stops this process, or all of its job, until it is told to go on.
func (j *jobControl) stop(job bool) error {
	pid := unix.Getpid()
	if job {
		pid = 0
	}
	signal.Stop(j.stops)
	signal.Reset(unix.SIGTSTP)
	err := unix.Kill(pid, unix.SIGTSTP)
	wait := time.NewTimer(stopWait)
	defer wait.Stop()
	select {
	case <-j.goOn:
	case <-wait.C:
	}
	signal.Notify(j.stops, unix.SIGTSTP)
	return err
}
