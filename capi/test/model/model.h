// A test of the library against a model of it: threads make random calls, and the model
// predicts what each call returns and what is delivered. Each thread has its own objects
// and its own random numbers, so a seed repeats its calls.
#ifndef MODEL_H
#define MODEL_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 16, ADAPTERS = 2 };

// thread is the state of a test thread.
struct thread {
	int id;
	uint64_t random;       // state of its random numbers
	const char *step;      // name of the current step
	unsigned long steps;   // done so far
	pthread_t handle;

	// The watchdog reads waits and moves.
	const char *_Atomic waits; // what the thread waits for; NULL: it does not wait
	_Atomic unsigned long moves; // grows with each action of the thread

	struct ibv_context *ctx[ADAPTERS]; // its own contexts
	struct ibv_device_attr dev;        // the same for both adapters
	struct zoo *zoo;
	struct links *links;
};

extern __thread struct thread *me;

// helper is a thread that makes one call, which blocks.
struct helper {
	void (*call)(void *arg);
	void *arg;

	struct thread *of;
	pthread_t handle;
	_Atomic pid_t tid;
	_Atomic bool returned;
};

// pause stops a thread that reads a descriptor, when the read has returned for the first time.
struct pause {
	int fd;
	bool over;
	sem_t begins, returns, go_on; // begins counts all reads
};

extern __thread struct pause *paused;

// pause.c
void init_pause(struct pause *p, int fd);

// check.c
_Noreturn void differs(const char *call, const char *field, uint64_t got, uint64_t want);
_Noreturn void fails(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
void want_bytes(const char *call, const char *field, const void *got, const void *want, size_t n);
void refused(const char *call, long got, int error, int want);
void refused_null(const char *call, const void *got, int error, int want);
void refused_minus(const char *call, long got, int error, int want);
uint64_t draw64(void);
unsigned draw(unsigned n);
bool chance(unsigned percent);
void scribble(void *p, size_t n);
void poison(void *p, size_t n);
bool is_poison(const void *p, size_t n);
void waits_for(const char *what);
uint64_t now_in(clockid_t clock);
uint64_t now_ns(void);
void until_blocked(pid_t tid);
void start_helper(struct helper *h);
bool has_returned(struct helper *h);
void join_helper(struct helper *h);
bool readable(int fd);
int watch_open(int fd);
bool is_open(int ep);

// The calls under test. A mismatch is reported with the text of the call or of the field.
#define WANT(call, got, want)                                                                  \
	do {                                                                                   \
		uint64_t got_ = (uint64_t)(got), want_ = (uint64_t)(want);                     \
		if (got_ != want_)                                                             \
			differs(call, #got, got_, want_);                                      \
	} while (0)

// WORKS is for calls that return 0, MADE for calls that return an object. Calls that succeed keep
// errno.
enum { KEPT = 4242 };

#define WORKS(expr)                                                                            \
	do {                                                                                   \
		errno = KEPT;                                                                  \
		long code_ = (long)(expr);                                                     \
		if (code_ != 0 || errno != KEPT)                                               \
			fails(#expr, "returned %ld (errno %d), want 0 (errno %d)", code_, errno, KEPT); \
	} while (0)

#define MADE(expr)                                                                             \
	({                                                                                     \
		errno = KEPT;                                                                  \
		__auto_type made_ = (expr);                                                    \
		if (made_ == NULL || errno != KEPT)                                            \
			fails(#expr, "returned %s (errno %d), want an object (errno %d)",      \
			      made_ == NULL ? "NULL" : "an object", errno, KEPT);              \
		made_;                                                                         \
	})

// REFUSES checks the error number that a call returns and sets in errno. REFUSES_NULL and
// REFUSES_MINUS check the one in errno.
#define REFUSES(expr, code)                                                                    \
	do {                                                                                   \
		errno = 0;                                                                     \
		long code_ = (long)(expr);                                                     \
		refused(#expr, code_, errno, code);                                            \
	} while (0)

#define REFUSES_NULL(expr, code)                                                               \
	do {                                                                                   \
		errno = 0;                                                                     \
		const void *got_ = (expr);                                                     \
		refused_null(#expr, got_, errno, code);                                        \
	} while (0)

#define REFUSES_MINUS(expr, code)                                                              \
	do {                                                                                   \
		errno = 0;                                                                     \
		long code_ = (long)(expr);                                                     \
		refused_minus(#expr, code_, errno, code);                                      \
	} while (0)

// step is one kind of step of a thread. Steps are drawn in proportion to their weights.
struct step {
	const char *name;
	unsigned weight;
	void (*run)(void);
};

// The steps of the other files; the last has no name.
extern const struct step object_steps[], queue_steps[], link_steps[], event_steps[], waiter_steps[], async_steps[], ask_steps[], word_steps[], break_steps[], region_steps[], share_steps[], window_steps[], dm_steps[], xrc_steps[];

enum {
	ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	QKEY = 0x1234,
};

// zoo.c: objects that are created and destroyed at random. They carry no traffic.
void zoo_open(void);
void zoo_close(void);

// moves.c: queue pairs move between states.
void fill_av(struct ibv_ah_attr *a, int adapter);
void want_av(const char *call, const struct ibv_ah_attr *got, const struct ibv_ah_attr *want);

// link.c
void links_open(void);
void links_close(void);

// source.c: produces completions on demand.
struct source {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_qp *qp; // in ERR: each posted receive is flushed at once
	struct ibv_cq *cq;
};

void source_open(struct source *s, struct ibv_context *ctx, struct ibv_cq *cq);
void source_emit(struct source *s, unsigned n);
void source_close(struct source *s);

#endif
