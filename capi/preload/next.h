// The functions that this library replaces, as the next library defines them:
// the C library, another preloaded library, or a sanitizer.

#ifndef SOFTHCA_NEXT_H
#define SOFTHCA_NEXT_H

// NEXT(name) for each.
#define NEXT_FUNCTIONS(NEXT) \
	NEXT(open) NEXT(open64) NEXT(__open) NEXT(__open64) NEXT(__open_2) NEXT(__open64_2) \
	NEXT(openat) NEXT(openat64) NEXT(__openat_2) NEXT(__openat64_2) NEXT(fopen) NEXT(fopen64) \
	NEXT(opendir) NEXT(scandir) NEXT(scandir64) NEXT(scandirat) NEXT(scandirat64) NEXT(glob) \
	NEXT(glob64) NEXT(stat) NEXT(stat64) NEXT(lstat) NEXT(lstat64) NEXT(fstatat) NEXT(fstatat64) \
	NEXT(__xstat) NEXT(__xstat64) NEXT(__lxstat) NEXT(__lxstat64) NEXT(fstat) NEXT(fstat64) \
	NEXT(__fxstat) NEXT(__fxstat64) NEXT(write) NEXT(__fxstatat) NEXT(__fxstatat64) NEXT(statx) \
	NEXT(access) NEXT(euidaccess) NEXT(eaccess) NEXT(faccessat) NEXT(getxattr) NEXT(lgetxattr) \
	NEXT(listxattr) NEXT(llistxattr) NEXT(readlink) NEXT(readlinkat) NEXT(__readlink_chk) \
	NEXT(__readlinkat_chk) NEXT(realpath) NEXT(__realpath_chk) NEXT(canonicalize_file_name) \
	NEXT(chdir) NEXT(getcwd) NEXT(__getcwd_chk) NEXT(sigaction) NEXT(__sigaction) NEXT(signal) \
	NEXT(bsd_signal) NEXT(ssignal) NEXT(sysv_signal) NEXT(__sysv_signal) NEXT(sigset) NEXT(_exit) \
	NEXT(_Exit) NEXT(close) NEXT(__close) NEXT(dup2) NEXT(__dup2) NEXT(dup3) NEXT(pthread_cancel) \
	NEXT(epoll_ctl) NEXT(epoll_wait) NEXT(epoll_pwait) NEXT(socket) NEXT(bind) NEXT(getsockname) \
	NEXT(setsockopt) NEXT(send) NEXT(sendto) NEXT(sendmsg) NEXT(recv) NEXT(recvfrom) NEXT(recvmsg) \
	NEXT(__recv_chk) NEXT(__recvfrom_chk)

#define NEXT_NUMBER(name) NEXT_##name,
enum { NEXT_FUNCTIONS(NEXT_NUMBER) NEXT_COUNT };

// next_function finds a function, if the constructor has not. It always exists: a
// program that calls the replacement was linked with the function.
void *next_function(int number);

// NEXT_CALL is the next function in place of the function that the caller replaces, whose type
// it has.
#define NEXT_CALL(name) ((__typeof__(&name))next_function(NEXT_##name))

#endif
