//go:build mutation

package mutation

// cProcessMutants are bugs of forks, signals, cancellation, faults and ends.
var cProcessMutants = []cMutant{
	{
		name: "child-uses-the-parents-engine", in: "capi/libibverbs/loader.c:in_child",
		old: "atomic_store(&d->gone, 1);", new: "",
		sees: "calls of the child that hang or succeed",
	},
	{
		name: "handler-in-front-of-ours", in: "capi/libibverbs/fault.c:handler_set",
		old: "code = keep(i, act);", new: "code = set(sig, act, NULL);",
		sees: "its handler is called for memory that the adapter touches",
	},
	{
		name: "sent-signal-is-a-crash-of-the-engine", in: "capi/libibverbs/fault.c:on_fault",
		old: "!recurs(sig, info) || ", new: "",
		sees: "its end by a signal that it ignores",
	},
	{
		name: "engines-handler-is-the-programs", in: "capi/libibverbs/fault.c:handler_set",
		old: "if (loads)", new: "if (false)",
		sees: "a child that faults for ever",
	},
	{
		name: "engine-of-the-child-catches-signals", in: "capi/libibverbs/signals.c:caught",
		old: "if (sets_engines())", new: "if (false)",
		sees: "two system calls for each poll of a child",
	},
	{
		name: "seed-of-the-faults-dropped", in: "capi/libibverbs/loader.c:open_new",
		old: "(char *)setting(\"SOFTHCA_FAULTS_SEED\")", new: "\"\"",
		sees: "other faults than those of its seed",
	},
	{
		name: "adapters-behind-the-table", in: "capi/libibverbs/loader.c:find_nodes",
		old: "known < MAX_DEVICES", new: "known < MAX_DEVICES + 1",
		sees: "memory behind the table overwritten",
	},
	{
		name: "only-one-adapter-flushed", in: "capi/libibverbs/loader.c:flush_devices",
		old: "d = d->next", new: "d = NULL",
		sees: "acknowledgements that its second adapter does not send at its end",
	},
	{
		name: "adapters-of-the-parent", in: "capi/libibverbs/loader.c:in_child",
		old: "known = 0;", new: ";",
		sees: "the adapters of its parent, whatever its environment says",
	},
	{
		name: "left-engine-not-counted", in: "capi/libibverbs/signals.c:leave_bare",
		old: "atomic_fetch_sub(&bare, 1);", new: "atomic_load(&bare);",
		sees: "a second of waiting when it sets its first handler",
	},
	{
		name: "handler-set-inside-the-engine", in: "capi/libibverbs/signals.c:caught",
		old: "while (atomic_load(&bare) > 0 && ", new: "while (false && ",
		sees: "its handler on a stack of the engine",
	},
	{
		name: "threads-of-the-parent-in-the-engine", in: "capi/libibverbs/signals.c:signals_in_child",
		old: "atomic_store(&bare, 0);", new: ";",
		sees: "a second of waiting when a child sets its first handler",
	},
	{
		name: "sleeper-not-woken-to-be-cancelled", in: "capi/libibverbs/cancel.c:cancelled",
		old: "eventfd_write(off, 1);", new: ";",
		sees: "a second of waiting when it cancels a thread",
	},
	{
		name: "left-sleep-not-counted", in: "capi/libibverbs/cancel.c:leave_sleep",
		old: "atomic_fetch_sub(&sleepers, 1);", new: ";",
		sees: "a second of waiting when it cancels its first thread",
	},
	{
		name: "sleepers-of-the-parent", in: "capi/libibverbs/cancel.c:cancels_in_child",
		old: "atomic_store(&sleepers, 0);", new: ";",
		sees: "a second of waiting when a child cancels its first thread",
	},
	{
		name: "cancelled-inside-the-engine", in: "capi/libibverbs/cancel.c:cancelled",
		old: "while (atomic_load(&sleepers) > 0 && ", new: "while (false && ",
		sees: "a thread that ends inside the engine",
	},
	{
		name: "our-handler-called-once", in: "capi/libibverbs/fault.c:keep",
		old: "(act->sa_flags & ~(int)SA_RESETHAND)", new: "act->sa_flags",
		sees: "its end by the second fault of the engine",
	},
	{
		name: "handler-on-the-threads-stack", in: "capi/libibverbs/fault.c:keep",
		old: " | SA_ONSTACK", new: "",
		sees: "its end by a fault while its stack is full",
	},
}

// cFileMutants are bugs of descriptors and of their limit.
var cFileMutants = []cMutant{
	{
		name: "configuration-of-the-first-environment", in: "capi/libibverbs/loader.c:open_new",
		old: "config_dir(dir, sizeof dir);", new: "dir[0] = 0;",
		sees: "another GUID after a program has overwritten the memory of its environment",
	},
	{
		name: "limit-raised-by-a-refused-engine", in: "capi/libibverbs/loader.c:load",
		old: "if (c != NULL && limited)", new: "if (c != NULL && c->abi == SOFTHCA_ENGINE_ABI && limited)",
		sees: "another soft limit of descriptors",
	},
	{
		name: "engine-among-the-standard-descriptors", in: "capi/libibverbs/loader.c:open_device",
		old: "hold_standard(&s);", new: "memset(&s, 0, sizeof s);",
		sees: "sockets of the adapter as standard input, output or error",
	},
	{
		name: "child-keeps-marked-descriptors", in: "capi/libibverbs/loader.c:close_ports",
		old: "is_marked(fd) || ", new: "",
		sees: "descriptors of its parent's adapter in a child",
	},
	{
		name: "standard-descriptors-not-released", in: "capi/libibverbs/files.c:release_standard",
		old: " && file.st_dev == s->dev && file.st_ino == s->ino", new: " && false",
		sees: "standard descriptors that stay open",
	},
	{
		name: "child-cannot-close-its-copies", in: "capi/libibverbs/files.c:is_kept",
		old: " && owns_engine()", new: "",
		sees: "EBADF in a child that was made without handlers of fork",
	},
	{
		name: "asynchronous-descriptor-kept", in: "capi/libibverbs/files.c:is_marked",
		old: " && (syscall(SYS_fcntl, fd, F_GETFL) & O_ASYNC) == 0", new: "",
		sees: "EBADF for a descriptor of its own",
	},
}

// cManagerMutants are bugs of the descriptor of the connection manager.
var cManagerMutants = []cMutant{
	{
		name: "event-lost-whose-byte-was-read", in: "capi/libibverbs/ucm.c:wait_for_event",
		old: "while (code == SOFTHCA_CM_AGAIN);", new: "while (false);",
		sees: "an error where the event's ID was destroyed",
	},
	{
		name: "every-failure-of-the-wait-is-eio", in: "capi/libibverbs/ucm.c:wait_for_event",
		old: "got == 0 ? EIO : errno", new: "EIO",
		sees: "EIO where EAGAIN or EINTR is due",
	},
	{
		name: "always-closed-by-exec", in: "capi/libibverbs/ucm.c:open_file",
		old: "if ((flags & O_CLOEXEC) == 0)", new: "if (false)",
		sees: "a descriptor that exec closes",
	},
	{
		name: "next-file-with-the-number", in: "capi/libibverbs/ucm.c:is_file",
		old: "s.st_dev == f->dev && s.st_ino == f->ino", new: "true",
		sees: "no writes to a file that has the number next",
	},
	{
		name: "failure-without-errno", in: "capi/libibverbs/ucm.c:write_file",
		old: "errno = code;", new: ";",
		sees: "errno as it was before",
	},
	{
		name: "commands-of-the-child-reach-the-parents-engine", in: "capi/libibverbs/ucm.c:alive",
		old: "!f->device->gone", new: "true",
		sees: "a child that waits for its parent's events",
	},
	{
		name: "wait-without-a-descriptor-of-its-own", in: "capi/libibverbs/ucm.c:begin_wait",
		old: "fcntl(fd, F_DUPFD_CLOEXEC, 0)", new: "fd",
		sees: "the file is closed under a thread that waits",
	},
	{
		name: "wait-only-with-a-copy", in: "capi/libibverbs/ucm.c:begin_wait",
		old: "copy < 0 ? fd : copy", new: "copy",
		sees: "EBADF instead of events in a process that may open no more descriptors",
	},
	{
		name: "closed-by-the-engine-alone", in: "capi/libibverbs/ucm.c:end_file",
		old: "ENGINE(f->device, shut_cm, f->handle);", new: "",
		sees: "descriptors that are closed after close and dup2 return",
	},
	{
		name: "writer-of-files-interrupted", in: "capi/libibverbs/ucm.c:lock_writing",
		old: "SIG_SETMASK, engine_mask(), old", new: "SIG_SETMASK, NULL, old",
		sees: "a pipe where the device is, in a handler of a signal",
	},
}

// cPreloadMutants are bugs of the preload library.
var cPreloadMutants = []cMutant{
	{
		name: "names-that-begin-like-ours", in: "capi/preload/path.c:after",
		old: " || (p[n] != '/' && p[n] != '\\0')", new: "",
		sees: "the device at /devinfiniband/uverbs0",
	},
	{
		name: "way-out-by-dots-not-seen", in: "capi/preload/path.c:entry_at",
		old: "if (depth < 1)", new: "if (depth < 0)",
		sees: "files at /sys/class/infiniband/../infiniband, where the kernel has none",
	},
	{
		name: "relative-path-from-anywhere", in: "capi/preload/path.c:entry_of",
		old: "(*path == '/' || same_directory(dirfd, at, from))", new: "true",
		sees: "the device at infiniband/uverbs0 of every directory",
	},
	{
		name: "picture-can-be-written", in: "capi/preload/open.c:open_in_picture",
		old: "(flags & O_ACCMODE) != O_RDONLY", new: "(flags & O_ACCMODE) == O_ACCMODE",
		sees: "a file of /sys opens for writing",
	},
	{
		name: "counter-survives-exec", in: "capi/preload/value.c:file_of",
		old: "(flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0", new: "0",
		sees: "a descriptor that exec does not close",
	},
	{
		name: "state-reversed", in: "capi/preload/value.c:evaluate",
		old: "n == 0 ?", new: "n != 0 ?",
		sees: "a port that is down while it is active",
	},
	{
		name: "device-is-a-regular-file", in: "capi/preload/status.c:stat_led",
		old: "if (*result == 0)", new: "if (false)",
		sees: "a regular file where the device is",
	},
	{
		name: "number-of-the-device", in: "capi/preload/value.c:device_number",
		old: "DEVICE_MINOR + (unsigned)size", new: "DEVICE_MINOR + 1",
		sees: "another device number than sysfs has",
	},
	{
		name: "close-reaches-the-adapter", in: "capi/preload/close.c:CLOSE",
		old: "if (kept(fd))", new: "if (0)",
		sees: "an adapter that ends when a loop closes all descriptors",
	},
	{
		name: "dup2-reaches-the-adapter", in: "capi/preload/close.c:DUP2",
		old: "from != to && kept(to)", new: "0",
		sees: "an adapter that ends when a loop replaces all descriptors",
	},
	{
		name: "dup3-reaches-the-adapter", in: "capi/preload/close.c:dup3",
		old: "if (kept(to))", new: "if (0)",
		sees: "an adapter that ends when dup3 replaces its descriptors",
	},
	{
		name: "close-range-reaches-the-adapter", in: "capi/preload/close.c:end",
		old: "!kept(fd) && ", new: "",
		sees: "an adapter that ends at closefrom and close_range",
	},
	{
		name: "range-without-a-list-reaches-the-adapter", in: "capi/preload/close.c:end_unlisted",
		old: "if (kept((int)fd))", new: "if (0)",
		sees: "an adapter that ends at closefrom where there is no /proc",
	},
	{
		name: "quick-end-not-told", in: "capi/preload/exit.c:EXIT",
		old: "if (f != NULL)", new: "if (0)",
		sees: "the peer of a program that ends by _exit waits on",
	},
	{
		name: "writes-past-the-connection-manager", in: "capi/preload/rdma_cm.c:write",
		old: "calls->write(fd, b, n, &result)", new: "false",
		sees: "EBADF for every command",
	},
	{
		name: "connection-manager-is-a-pipe", in: "capi/preload/rdma_cm.c:as_device",
		old: "s->st_mode = DEVICE_MODE;", new: "",
		sees: "a pipe where the device is",
	},
	{
		name: "root-of-a-longer-name", in: "capi/preload/path.c:without_root",
		old: " && path[n] == '/'", new: "",
		sees: "a path without its front, in a directory beside the image",
	},
	{
		name: "file-of-the-image-truncated", in: "capi/preload/open.c:open_in_picture",
		old: "flags & ~O_TRUNC", new: "flags",
		sees: "empty files in the image",
	},
	{
		name: "stream-survives-exec", in: "capi/preload/open.c:fopen_led",
		old: "flags |= O_CLOEXEC;", new: ";",
		sees: "a stream that exec does not close",
	},
	{
		name: "device-opened-for-its-path", in: "capi/preload/open.c:open_in_picture",
		old: "(flags & (O_PATH | O_DIRECTORY)) == 0 && ", new: "",
		sees: "ENXIO where only a path is opened",
	},
	{
		name: "sum-of-the-last-word", in: "capi/preload/value.c:sum",
		old: "*total += word;", new: "*total = word;",
		sees: "one counter where it is the sum of several",
	},
	{
		name: "value-of-a-path", in: "capi/preload/value.c:present",
		old: "(flags & (O_PATH | O_DIRECTORY)) != 0 || ", new: "",
		sees: "a file where only a path is opened",
	},
	{
		name: "file-beside-the-image", in: "capi/preload/value.c:in_picture",
		old: " && path[n] == '/'", new: "",
		sees: "a value for a file that is not in the image",
	},
	{
		name: "longest-spec-not-evaluated", in: "capi/preload/value.c:present",
		old: "s.st_size > SPEC_MAX", new: "s.st_size >= SPEC_MAX",
		sees: "a spec where its value is due",
	},
	{
		name: "everything-executable", in: "capi/preload/status.c:access_led",
		old: "led, wanted)", new: "led, F_OK)",
		sees: "files of /sys that can be executed",
	},
	{
		name: "link-followed", in: "capi/preload/status.c:statx_led",
		old: "AT_FDCWD, led, flags, mask, s)", new: "AT_FDCWD, led, 0, mask, s)",
		sees: "where a link leads to, of statx for the link",
	},
	{
		name: "link-without-room", in: "capi/preload/name.c:READLINK_CHK",
		old: " && size <= room", new: "",
		sees: "memory behind its buffer overwritten",
	},
	{
		name: "lost-on-the-way", in: "capi/preload/name.c:chdir",
		old: "way == WAY_LOST || ", new: "",
		sees: "another directory than it was in",
	},
	{
		name: "signal-interrupts-calls", in: "capi/preload/handler.c:SIGNAL",
		old: ".sa_flags = SA_RESTART", new: ".sa_flags = 0",
		sees: "calls that a signal interrupts",
	},
	{
		name: "signal-inside-its-handler", in: "capi/preload/handler.c:SIGNAL",
		old: "sigaddset(&act.sa_mask, sig);", new: ";",
		sees: "its handler called inside itself",
	},
	{
		name: "cancellation-not-told", in: "capi/preload/cancel.c:pthread_cancel",
		old: "if (f != NULL)", new: "if (0)",
		sees: "a thread that ends inside the engine",
	},
	{
		name: "handler-of-system-v-not-seen", in: "capi/preload/handler.c:OLD_SIGNAL",
		old: "catches(sig, handler);", new: ";",
		sees: "its handler on a stack of the engine",
	},
	{
		name: "ignored-signal-is-caught", in: "capi/preload/handler.c:catches",
		old: " && handler != SIG_IGN", new: "",
		sees: "two system calls for each poll, of a program that catches no signals",
	},
	{
		name: "status-of-an-end-lost", in: "capi/preload/exit.c:EXIT",
		old: "NEXT_CALL(name)(status);", new: "NEXT_CALL(name)(0);",
		sees: "status 0 of a process that ended with another",
	},
	{
		name: "size-of-a-device", in: "capi/preload/status.c:statx_led",
		old: "s->stx_size = 0;", new: ";",
		sees: "a device with a size",
	},
}
