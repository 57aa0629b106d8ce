// The boards of a device, which contain its counters: one in the image, to which one process writes;
// those in the tables of other running processes; and the counts of processes that have ended.

#define _GNU_SOURCE
#include "nldev.h"

#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// Attempts to read all boards while no process ends; and pauses while one adds its counts, of 100 us
// each after the first ones.
enum { ATTEMPTS = 100, PAUSES = 2000, SHORT_PAUSES = 100 };

// reading contains the words that a spec names, and their sums over boards.
struct reading {
	const char *words;     // A+B+...
	struct stat file;      // of the boards of the image
	uint64_t board, ended; // offsets in it
	uint64_t own;          // sum of the words of the board in the image
	uint64_t sum;
	uint64_t least; // sum of one board, that of the process in which it is least
	bool live;      // a running process has a table
};

bool number(const char **p, uint64_t *n)
{
	const char *from = *p;

	for (*n = 0; **p >= '0' && **p <= '9' && *p - from < 9; (*p)++)
		*n = *n * 10 + (uint64_t)(**p - '0');
	return *p > from;
}

// word_at reads a word of a file of boards. Those of another user, for which fd is negative, are all 0.
static bool word_at(int fd, uint64_t at, uint64_t *word)
{
	*word = 0;
	return fd < 0 || syscall(SYS_pread64, fd, word, sizeof(*word), at) == sizeof(*word);
}

// sum adds the words of a board that a spec names: A+B+...
static bool sum(int fd, uint64_t board, const char **p, uint64_t *total)
{
	uint64_t at, word;

	for (*total = 0;; (*p)++) {
		if (!number(p, &at) || !word_at(fd, board + at, &word))
			return false;
		*total += word;
		if (**p != '+')
			return true;
	}
}

// has adds the board of a running process.
static void has(struct reading *r, uint64_t n, bool own)
{
	if (!own)
		r->sum += n;
	if (!r->live || n < r->least)
		r->least = n;
	r->live = true;
}

// has_named adds the board that a table names: that of the image, or of another image.
static void has_named(struct reading *r, const struct table_process *process)
{
	const char *name = (const char *)process->board, *p = r->words;
	struct stat s;
	uint64_t n;

	if (memchr(name, '\0', sizeof(process->board)) == NULL)
		return;
	const int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd < 0)
		return;
	if (syscall(SYS_newfstatat, fd, "", &s, AT_EMPTY_PATH) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid()) {
		if (s.st_dev == r->file.st_dev && s.st_ino == r->file.st_ino && process->board_offset == r->board)
			has(r, r->own, true);
		else if (sum(fd, process->board_offset, &p, &n))
			has(r, n, false);
	}
	syscall(SYS_close, fd);
}

// process_has adds the board of the process of a table.
static bool process_has(const struct table *t, const void *row, void *to)
{
	struct reading *r = to;
	const char *p = r->words;
	uint64_t n;

	(void)row;
	if (t->header.process.board[0] != '\0')
		has_named(r, &t->header.process);
	else if (sum(t->fd, TABLE_BOARD, &p, &n))
		has(r, n, false);
	return true;
}

// adding reports whether a process that adds its counts, and so has locked them, is alive.
static bool adding(int fd, const struct reading *r)
{
	struct flock by = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = (off_t)r->ended, .l_len = 1 };

	return syscall(SYS_fcntl, fd, F_OFD_GETLK, &by) == 0 && by.l_type != F_UNLCK;
}

// begun waits, for a bounded time, while a process that ends adds its counts, and returns the
// sequence number of these. A process that was killed meanwhile leaves an odd one.
static uint64_t begun(int fd, const struct reading *r)
{
	const struct timespec pause = { .tv_nsec = 100000 };
	uint64_t seq = 0;

	for (int i = 0; i < PAUSES && word_at(fd, r->ended - sizeof(seq), &seq) && (seq & 1) != 0; i++)
		if (i < SHORT_PAUSES)
			sched_yield();
		else if (adding(fd, r))
			syscall(SYS_nanosleep, &pause, NULL);
		else
			break;
	return seq;
}

// read_all reads all boards of a device, and moves p behind the words.
static bool read_all(struct work *w, int fd, const struct device *d, struct reading *r, const char **p)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		const uint64_t before = begun(fd, r);
		struct cursor at = { 0 };
		uint64_t after, ended;
		*p = r->words;
		if (!sum(fd, r->ended, p, &ended))
			return false;
		*p = r->words;
		if (!sum(fd, r->board, p, &r->own))
			return false;
		r->sum = r->own + ended;
		r->live = false;
		each_row(w, d, &(struct walk){ TABLE_ANY, process_has, r }, &at);
		if (!r->live)
			r->least = r->own;
		if (word_at(fd, r->ended - sizeof(after), &after) && after == before)
			break;
	}
	return true;
}

bool read_boards(const char **spec, uint64_t *total, uint64_t *least)
{
	char name[ROOT_MAX + 8], room[ROOT_MAX];
	struct reading r = { 0 };
	struct device d;
	uint64_t index;
	const int was = errno;
	bool ok = false;

	if (!number(spec, &index) || *(*spec)++ != ',' || !number(spec, &r.board) || *(*spec)++ != ',' || !number(spec, &r.ended) || *(*spec)++ != ':')
		return false;
	r.words = *spec;
	if (!find_device((uint32_t)index, &d))
		return false;
	strcpy(stpcpy(name, image_root(room)), "/board");
	const int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0 && errno != EACCES)
		return false;
	errno = was;
	struct work *w = borrow();
	if (w != NULL) {
		ok = (fd < 0 || syscall(SYS_newfstatat, fd, "", &r.file, AT_EMPTY_PATH) == 0) && read_all(w, fd, &d, &r, spec);
		munmap(w, sizeof(*w));
	}
	if (fd >= 0)
		syscall(SYS_close, fd);
	*total = r.sum;
	*least = r.least;
	return ok;
}
