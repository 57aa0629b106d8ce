//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// serving is the argument with which the first process starts itself again, to
// serve: the first process reaps all orphans, and must not reap the server's
// children.
const serving = "serve"

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == serving && os.Getppid() == 1:
		fmt.Println("agent:", serve())
	case os.Getpid() == 1:
		first()
	default:
		fmt.Fprintln(os.Stderr, "agent: this is the first process of a guest; it does nothing elsewhere")
		os.Exit(2)
	}
}

// first boots the guest, and then reaps orphans. If serving fails, it turns the
// machine off.
func first() {
	if err := boot(); err != nil {
		fmt.Println("interop: boot failed:", err)
	} else {
		agent := exec.Command("/init", serving)
		agent.Stdout, agent.Stderr = os.Stdout, os.Stderr
		if err := agent.Start(); err != nil {
			fmt.Println("interop: boot failed:", err)
		} else {
			for {
				pid, err := unix.Wait4(-1, nil, 0, nil)
				if pid == agent.Process.Pid || err == unix.ECHILD {
					fmt.Println("interop: the agent ended")
					break
				}
			}
		}
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("interop:", err)
	}
}
