// The functions that this library replaces, as the next library defines them:
// the C library, another preloaded library, or a sanitizer.

#ifndef SOFTHCA_NEXT_H
#define SOFTHCA_NEXT_H

#include <dirent.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

typedef int selector(const struct dirent *);
typedef int sorter(const struct dirent **, const struct dirent **);
typedef int selector64(const struct dirent64 *);
typedef int sorter64(const struct dirent64 **, const struct dirent64 **);

// NEXT(result, name, parameters) for each.
#define NEXT_FUNCTIONS(NEXT) \
	NEXT(int, open, (const char *, int, ...)) \
	NEXT(int, open64, (const char *, int, ...)) \
	NEXT(int, __open, (const char *, int, ...)) \
	NEXT(int, __open64, (const char *, int, ...)) \
	NEXT(int, __open_2, (const char *, int)) \
	NEXT(int, __open64_2, (const char *, int)) \
	NEXT(int, openat, (int, const char *, int, ...)) \
	NEXT(int, openat64, (int, const char *, int, ...)) \
	NEXT(int, __openat_2, (int, const char *, int)) \
	NEXT(int, __openat64_2, (int, const char *, int)) \
	NEXT(FILE *, fopen, (const char *, const char *)) \
	NEXT(FILE *, fopen64, (const char *, const char *)) \
	NEXT(DIR *, opendir, (const char *)) \
	NEXT(int, scandir, (const char *, struct dirent ***, selector *, sorter *)) \
	NEXT(int, scandir64, (const char *, struct dirent64 ***, selector64 *, sorter64 *)) \
	NEXT(int, scandirat, (int, const char *, struct dirent ***, selector *, sorter *)) \
	NEXT(int, scandirat64, (int, const char *, struct dirent64 ***, selector64 *, sorter64 *)) \
	NEXT(int, glob, (const char *, int, int (*)(const char *, int), glob_t *)) \
	NEXT(int, glob64, (const char *, int, int (*)(const char *, int), glob64_t *)) \
	NEXT(int, stat, (const char *, struct stat *)) \
	NEXT(int, stat64, (const char *, struct stat64 *)) \
	NEXT(int, lstat, (const char *, struct stat *)) \
	NEXT(int, lstat64, (const char *, struct stat64 *)) \
	NEXT(int, fstatat, (int, const char *, struct stat *, int)) \
	NEXT(int, fstatat64, (int, const char *, struct stat64 *, int)) \
	NEXT(int, __xstat, (int, const char *, struct stat *)) \
	NEXT(int, __xstat64, (int, const char *, struct stat64 *)) \
	NEXT(int, __lxstat, (int, const char *, struct stat *)) \
	NEXT(int, __lxstat64, (int, const char *, struct stat64 *)) \
	NEXT(int, fstat, (int, struct stat *)) \
	NEXT(int, fstat64, (int, struct stat64 *)) \
	NEXT(int, __fxstat, (int, int, struct stat *)) \
	NEXT(int, __fxstat64, (int, int, struct stat64 *)) \
	NEXT(ssize_t, write, (int, const void *, size_t)) \
	NEXT(int, __fxstatat, (int, int, const char *, struct stat *, int)) \
	NEXT(int, __fxstatat64, (int, int, const char *, struct stat64 *, int)) \
	NEXT(int, statx, (int, const char *, int, unsigned, struct statx *)) \
	NEXT(int, access, (const char *, int)) \
	NEXT(int, euidaccess, (const char *, int)) \
	NEXT(int, eaccess, (const char *, int)) \
	NEXT(int, faccessat, (int, const char *, int, int)) \
	NEXT(ssize_t, getxattr, (const char *, const char *, void *, size_t)) \
	NEXT(ssize_t, lgetxattr, (const char *, const char *, void *, size_t)) \
	NEXT(ssize_t, listxattr, (const char *, char *, size_t)) \
	NEXT(ssize_t, llistxattr, (const char *, char *, size_t)) \
	NEXT(ssize_t, readlink, (const char *, char *, size_t)) \
	NEXT(ssize_t, readlinkat, (int, const char *, char *, size_t)) \
	NEXT(ssize_t, __readlink_chk, (const char *, char *, size_t, size_t)) \
	NEXT(ssize_t, __readlinkat_chk, (int, const char *, char *, size_t, size_t)) \
	NEXT(char *, realpath, (const char *, char *)) \
	NEXT(char *, __realpath_chk, (const char *, char *, size_t)) \
	NEXT(char *, canonicalize_file_name, (const char *)) \
	NEXT(int, chdir, (const char *)) \
	NEXT(char *, getcwd, (char *, size_t)) \
	NEXT(char *, __getcwd_chk, (char *, size_t, size_t)) \
	NEXT(int, sigaction, (int, const struct sigaction *, struct sigaction *)) \
	NEXT(int, __sigaction, (int, const struct sigaction *, struct sigaction *)) \
	NEXT(sighandler_t, signal, (int, sighandler_t)) \
	NEXT(sighandler_t, bsd_signal, (int, sighandler_t)) \
	NEXT(sighandler_t, ssignal, (int, sighandler_t)) \
	NEXT(sighandler_t, sysv_signal, (int, sighandler_t)) \
	NEXT(sighandler_t, __sysv_signal, (int, sighandler_t)) \
	NEXT(sighandler_t, sigset, (int, sighandler_t)) \
	NEXT(void, _exit, (int)) \
	NEXT(void, _Exit, (int)) \
	NEXT(int, close, (int)) \
	NEXT(int, __close, (int)) \
	NEXT(int, dup2, (int, int)) \
	NEXT(int, __dup2, (int, int)) \
	NEXT(int, dup3, (int, int, int)) \
	NEXT(int, pthread_cancel, (pthread_t))

#define NEXT_NUMBER(result, name, parameters) NEXT_##name,
enum { NEXT_FUNCTIONS(NEXT_NUMBER) NEXT_COUNT };

#define NEXT_TYPE(result, name, parameters) typedef result next_##name parameters;
NEXT_FUNCTIONS(NEXT_TYPE)

// next_function finds a function, if the constructor has not. It always exists: a
// program that calls the replacement was linked with the function.
void *next_function(int number);

#define NEXT_CALL(name) ((next_##name *)next_function(NEXT_##name))

#endif
