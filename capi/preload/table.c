// Tables of objects of running processes. Each process with an adapter has one in a file, which it
// changes and may truncate at any time: so the file is read and never mapped, and every number
// from it is checked. A row counts only if its sequence number is the same before and after.

#define _GNU_SOURCE
#include "nldev.h"

#include "preload.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// Attempts to read a row that its owner changes.
enum { ATTEMPTS = 100 };

// directory opens the directory of tables: that of SOFTHCA_TABLES if the administrator has set it, otherwise
// that of the user, next to the image. internal/restrack/file does the same.
static int directory(struct work *w)
{
	char room[ROOT_MAX];
	const char *named = secure_getenv("SOFTHCA_TABLES");
	const char *root = image_root(room);
	const char *base = strrchr(root, '/');

	if (named != NULL && *named != '\0' && strcmp(named, "off") != 0)
		return (int)syscall(SYS_openat, AT_FDCWD, named, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (base == NULL)
		return -1;
	strcpy(mempcpy(w->path, root, (size_t)(base - root)), "/tables");
	return (int)syscall(SYS_openat, AT_FDCWD, w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
}

// A directory entry as the kernel writes it.
struct entry {
	uint64_t ino, off;
	uint16_t size;
	uint8_t type;
	char name[];
};

// next_name finds the name in a directory that follows another one, in the order of names.
static bool next_name(int dir, char name[TABLE_NAME_MAX])
{
	_Alignas(struct entry) char b[2048];
	char best[TABLE_NAME_MAX] = "";
	int seen = 0;
	long n;

	if (syscall(SYS_lseek, dir, 0, SEEK_SET) != 0)
		return false;
	while (seen < TABLES_MAX && (n = syscall(SYS_getdents64, dir, b, sizeof(b))) > 0) {
		for (long at = 0; at < n; at += ((struct entry *)(b + at))->size, seen++) {
			const char *found = ((struct entry *)(b + at))->name;
			if (found[0] == '.' || strncmp(found, "new-", 4) == 0 || strlen(found) >= TABLE_NAME_MAX)
				continue;
			if (strcmp(found, name) > 0 && (*best == '\0' || strcmp(found, best) < 0))
				strcpy(best, found);
		}
	}
	if (*best == '\0')
		return false;
	strcpy(name, best);
	return true;
}

static bool read_at(int fd, uint64_t at, void *to, size_t len)
{
	return syscall(SYS_pread64, fd, to, len, at) == (long)len;
}

// inode_of returns the number of a file, 0 if it is not known.
static uint64_t inode_of(const char *path)
{
	struct stat s;

	return syscall(SYS_newfstatat, AT_FDCWD, path, &s, 0) == 0 ? s.st_ino : 0;
}

// The start of a process in /proc/PID/stat, in fields after the name.
enum { START_FIELD = 20 };

// started reports whether a process exists that started at a time, in ticks.
static bool started(uint64_t pid, uint64_t ticks)
{
	char path[48] = "/proc/", text[1024];

	strcpy(decimal(path + strlen(path), pid), "/stat");
	const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	const long n = syscall(SYS_read, fd, text, sizeof(text) - 1);
	syscall(SYS_close, fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	const char *p = strrchr(text, ')');
	for (int i = 0; p != NULL && i < START_FIELD; i++)
		p = strchr(p + 1, ' ');
	return p != NULL && strtoull(p + 1, NULL, 10) == ticks;
}

// runs reports whether the process of a table runs: it locks its file, unless it has closed all
// its descriptors.
static bool runs(const struct table *t)
{
	const struct table_process *p = &t->header.process;
	struct flock own = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

	if (syscall(SYS_fcntl, t->fd, F_OFD_GETLK, &own) == 0 && own.l_type != F_UNLCK)
		return true;
	return p->ticks != 0 && started(p->pid, p->ticks);
}

// open_table opens a table of this user for a device, of a running process that this one sees.
static bool open_table(int dir, const char *name, const struct device *d, struct table *t)
{
	const struct table_process *p = &t->header.process;
	struct stat s;

	t->fd = (int)syscall(SYS_openat, dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
	if (t->fd < 0)
		return false;
	if (syscall(SYS_newfstatat, t->fd, "", &s, AT_EMPTY_PATH) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() &&
	    read_at(t->fd, 0, &t->header, sizeof(t->header)) && t->header.magic == TABLE_MAGIC && t->header.layout == TABLE_LAYOUT &&
	    strncmp((const char *)p->device, d->name, sizeof(p->device)) == 0 && memcmp(p->addr, d->addr, sizeof(p->addr)) == 0 &&
	    p->net_ns == inode_of("/proc/self/ns/net") && p->pidns == inode_of("/proc/self/ns/pid") && p->pid <= INT_MAX && runs(t))
		return true;
	syscall(SYS_close, t->fd);
	return false;
}

static size_t row_size(int kind)
{
	switch (kind) {
	case TABLE_QP:
		return sizeof(struct table_qp);
	case TABLE_CQ:
		return sizeof(struct table_cq);
	case TABLE_MR:
		return sizeof(struct table_mr);
	case TABLE_PD:
		return sizeof(struct table_pd);
	case TABLE_SRQ:
		return sizeof(struct table_srq);
	default:
		return sizeof(struct table_cm_id);
	}
}

static uint64_t seq_of(const unsigned char *row)
{
	uint64_t seq;

	memcpy(&seq, row, sizeof(seq));
	return seq;
}

// read_row reads a row that changed while its extent was read.
static COLD bool read_row(int fd, uint64_t at, unsigned char *row, size_t size)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		uint64_t before, after;
		if (!read_at(fd, at, &before, sizeof(before)) || (before & TABLE_LIVE) == 0)
			return false;
		if ((before & TABLE_WRITING) == 0 && read_at(fd, at, row, size) && read_at(fd, at, &after, sizeof(after)) && before == after)
			return true;
	}
	return false;
}

// rows walks an extent from a row on, which it moves; false if the walk stopped.
static bool rows(struct scan *s, const struct table *t, uint32_t extent, const struct walk *k, uint32_t *from)
{
	const uint64_t base = (uint64_t)extent * TABLE_EXTENT;
	const size_t size = row_size(k->kind);
	const uint32_t count = (uint32_t)(TABLE_EXTENT / size);

	if (!read_at(t->fd, base, s->again, TABLE_EXTENT))
		return true;
	for (uint32_t i = 0; i < count; i++)
		s->seqs[i] = seq_of(s->again + i * size);
	if (!read_at(t->fd, base, s->extent, TABLE_EXTENT) || !read_at(t->fd, base, s->again, TABLE_EXTENT))
		return true;
	for (; *from < count; ++*from) {
		unsigned char *row = s->extent + *from * size;
		const uint64_t seq = s->seqs[*from];
		if ((seq & TABLE_LIVE) == 0)
			continue;
		if (((seq & TABLE_WRITING) != 0 || seq != seq_of(s->again + *from * size)) && !read_row(t->fd, base + *from * size, row, size))
			continue;
		if (!k->f(t, row, k->to))
			return false;
	}
	return true;
}

// walk_table walks a table from a cursor on; false if the walk stopped.
static bool walk_table(struct scan *s, const struct table *t, const struct walk *k, struct cursor *at)
{
	const uint64_t n = t->header.extents < TABLE_EXTENTS ? t->header.extents : TABLE_EXTENTS;

	if (k->kind == TABLE_ANY)
		return k->f(t, NULL, k->to);
	for (; at->extent < n; at->extent++, at->row = 0)
		if (at->extent > 0 && t->header.kinds[at->extent] == (uint32_t)k->kind && !rows(s, t, at->extent, k, &at->row))
			return false;
	return true;
}

void each_row_of(struct work *w, const struct table *t, const struct walk *k)
{
	struct cursor at = { 0 };

	walk_table(&w->inner, t, k, &at);
}

bool each_row(struct work *w, const struct device *d, const struct walk *k, struct cursor *at)
{
	const int dir = directory(w);
	bool going = true;

	if (dir < 0)
		return true;
	at->name[TABLE_NAME_MAX - 1] = '\0';
	for (int i = 0; going && i < TABLES_MAX && (at->inside || next_name(dir, at->name)); i++) {
		if (!at->inside)
			at->extent = at->row = 0;
		at->inside = false;
		if (!open_table(dir, at->name, d, &w->table))
			continue;
		going = walk_table(&w->outer, &w->table, k, at);
		at->inside = !going;
		syscall(SYS_close, w->table.fd);
	}
	syscall(SYS_close, dir);
	return going;
}
