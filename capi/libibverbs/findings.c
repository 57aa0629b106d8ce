// Findings: each is a line of JSON in a file of this process, which `softhca run --check` reads. The file is
// opened for each line, so that a program that closes all its descriptors does not close it.
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { KNOWN = 512, LINE = 64 << 10, FATAL_EXIT = 86 };

static pthread_mutex_t findings_mu = PTHREAD_MUTEX_INITIALIZER; // guards what follows

// known is a finding that has been written. Finding it again only counts it.
static struct known {
	enum finding what;
	const struct stack *stack;
	unsigned long count, written;
} known[KNOWN];
static int knows;

bool advises;
static bool fatal;
static _Atomic bool held; // the end of the program is checked, with locks that ending it needs
static _Atomic bool due;  // an error was found meanwhile that ends the program
static char dir[PATH_MAX - 64], path[PATH_MAX];
static pid_t whose; // the process of path

// line is a line that is being written. What does not fit is left out.
struct line {
	size_t n;
	char text[LINE];
};

__attribute__((format(printf, 2, 3))) static void put(struct line *l, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int n = vsnprintf(l->text + l->n, sizeof l->text - l->n, format, args);
	va_end(args);
	if (n > 0 && (size_t)n < sizeof l->text - l->n)
		l->n += (size_t)n;
}

// put_string writes a string of JSON.
static void put_string(struct line *l, const char *s)
{
	enum { LONGEST = 1024 };
	put(l, "\"");
	for (int i = 0; s[i] != '\0' && i < LONGEST; i++) {
		unsigned char c = (unsigned char)s[i];
		if (c == '"' || c == '\\')
			put(l, "\\%c", c);
		else if (c < ' ' || c == 0x7f)
			put(l, "\\u%04x", c);
		else
			put(l, "%c", c);
	}
	put(l, "\"");
}

// put_frame writes a return address: the file, and the address of the call in it.
static void put_frame(struct line *l, uintptr_t pc)
{
	struct place p;
	find_place(pc, &p);
	put(l, "{\"file\":");
	put_string(l, p.file);
	put(l, ",\"offset\":%lu", (unsigned long)p.offset);
	if (p.symbol != NULL) {
		put(l, ",\"symbol\":");
		put_string(l, p.symbol);
		put(l, ",\"symbol_offset\":%lu", (unsigned long)p.symbol_offset);
	}
	put(l, "}");
}

static void put_stacks(struct line *l, const struct call calls[CALLS])
{
	enum { ROOM = 8 << 10 }; // for a frame, and for what ends the line
	put(l, ",\"stacks\":[");
	for (int i = 0; i < CALLS && calls[i].title != NULL; i++) {
		const struct stack *s = calls[i].stack;
		put(l, "%s{\"title\":", i > 0 ? "," : "");
		put_string(l, calls[i].title);
		put(l, ",\"frames\":[");
		for (unsigned f = 0; s != NULL && f < s->n && l->n + ROOM < sizeof l->text; f++) {
			put(l, "%s", f > 0 ? "," : "");
			put_frame(l, s->pc[f]);
		}
		put(l, "]}");
	}
	put(l, "]");
}

static int64_t wall_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// lose says, once, that findings are lost. The lock is held.
static void lose(const char *why)
{
	static bool said;
	if (!said)
		fprintf(stderr, "softhca: check: findings of process %d are lost: %s\n", (int)getpid(), why);
	said = true;
}

// append writes a line to the file of this process. The lock is held.
static void append(struct line *l)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0) {
		lose(strerror(errno));
		return;
	}
	l->text[l->n++] = '\n';
	for (size_t at = 0; at < l->n;) {
		ssize_t n = write(fd, l->text + at, l->n - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			lose(strerror(errno));
			break;
		}
		at += (size_t)n;
	}
	close(fd);
}

// begin writes the first line of the file of this process, if it is not there. The lock is held.
static void begin(void)
{
	static struct line l; // guarded by the lock
	char own[PATH_MAX] = "";
	if (whose == getpid())
		return;
	whose = getpid();
	ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
	own[n > 0 ? n : 0] = '\0';
	snprintf(path, sizeof path, "%s/%d-%llx.jsonl", dir, (int)whose, (unsigned long long)wall_ns());
	l.n = 0;
	put(&l, "{\"process\":{\"pid\":%d,\"program\":", (int)whose);
	put_string(&l, own);
	put(&l, "}}");
	append(&l);
}

// again counts a finding that is known, and reports whether it is. The lock is held.
static bool again(enum finding what, const struct stack *s)
{
	for (int i = 0; i < knows; i++)
		if (known[i].what == what && known[i].stack == s) {
			known[i].count++;
			return true;
		}
	return false;
}

// is_known reports whether a finding is known, and counts it then.
static bool is_known(enum finding what, const struct stack *s)
{
	mutex_lock(FINDINGS_LOCK, &findings_mu);
	bool is = again(what, s);
	mutex_unlock(&findings_mu);
	return is;
}

// record writes a finding, unless another thread has done so, or too many are known.
static void record(enum finding what, const struct stack *s, struct line *l)
{
	bool ends = false;
	mutex_lock(FINDINGS_LOCK, &findings_mu);
	bool known_now = again(what, s);
	if (!known_now && knows < KNOWN) {
		known[knows++] = (struct known){what, s, 1, 1};
		put(l, "\"id\":%d}", knows);
		begin();
		append(l);
		ends = fatal && !findings[what].advice;
	} else if (!known_now) {
		lose("there are too many");
	}
	mutex_unlock(&findings_mu);
	if (ends && atomic_load(&held)) {
		atomic_store(&due, true);
	} else if (ends) {
		check_ends_at_once(); // the thread may hold locks of the checker
		_exit(FATAL_EXIT);
	}
}

void found(enum finding what, const struct call calls[CALLS], const char *format, ...)
{
	char text[512];
	int saved = errno, cancels;
	va_list args;
	if ((findings[what].advice && !advises) || atomic_load(&due) || is_known(what, calls[0].stack))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	// Writing is a cancellation point, and the thread may hold locks.
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
	enter_checker();
	struct line *l = malloc(sizeof *l);
	if (l != NULL) {
		l->n = 0;
		put(l, "{\"finding\":\"%s\",\"time\":%lld,\"tid\":%d,\"text\":", findings[what].name, (long long)wall_ns(), (int)gettid());
		put_string(l, text);
		put_stacks(l, calls); // before the lock: this takes one of the dynamic linker
		put(l, ",");
		record(what, calls[0].stack, l);
	}
	free(l);
	leave_checker();
	pthread_setcancelstate(cancels, NULL);
	errno = saved;
}

void hold_fatal(void) { atomic_store(&held, true); }

int fatal_exit(void) { return atomic_load(&due) ? FATAL_EXIT : 0; }

void count_findings(void)
{
	static struct line l; // guarded by the lock
	int cancels;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
	mutex_lock(FINDINGS_LOCK, &findings_mu);
	for (int i = 0; i < knows && whose == getpid(); i++) {
		if (known[i].count == known[i].written)
			continue;
		known[i].written = known[i].count;
		l.n = 0;
		put(&l, "{\"id\":%d,\"count\":%lu}", i + 1, known[i].count);
		append(&l);
	}
	mutex_unlock(&findings_mu);
	pthread_setcancelstate(cancels, NULL);
}

// begin_findings writes the first line of a process, so that run knows that it was checked.
void begin_findings(void)
{
	int cancels;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
	mutex_lock(FINDINGS_LOCK, &findings_mu);
	begin();
	mutex_unlock(&findings_mu);
	pthread_setcancelstate(cancels, NULL);
}

void findings_in_child(void)
{
	pthread_mutex_init(&findings_mu, NULL);
	knows = 0;
	atomic_store(&held, false);
	atomic_store(&due, false);
}

// word reports whether a list that commas separate has a word.
static bool word(const char *list, const char *w)
{
	size_t n = strlen(w);
	for (const char *at = list; at != NULL; at = strchr(at, ','), at += at != NULL)
		if (strncmp(at, w, n) == 0 && (at[n] == '\0' || at[n] == ','))
			return true;
	return false;
}

bool start_findings(void)
{
	const char *words = secure_getenv("SOFTHCA_CHECK"), *to = secure_getenv("SOFTHCA_CHECK_DIR");
	if (words == NULL || *words == '\0' || to == NULL || strlen(to) >= sizeof dir)
		return false;
	memcpy(dir, to, strlen(to) + 1);
	advises = word(words, "advice"), fatal = word(words, "fatal");
	return true;
}

struct name name_of(const struct object *o)
{
	struct name n;
	snprintf(n.text, sizeof n.text, o->kind == &qp_kind ? "%s 0x%06x" : "%s %u", o->kind->name, o->number);
	return n;
}
