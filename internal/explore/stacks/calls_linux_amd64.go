package stacks

import "golang.org/x/sys/unix"

// olderCalls are system calls that newer processors do not have.
var olderCalls = map[int]string{
	unix.SYS_POLL: "poll", unix.SYS_SELECT: "select", unix.SYS_EPOLL_WAIT: "epoll_wait", unix.SYS_PAUSE: "pause",
}
