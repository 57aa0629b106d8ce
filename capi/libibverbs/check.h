// The checker: it finds bugs of the program, and writes a record of each. It runs only if the variable
// SOFTHCA_CHECK is set, as `softhca run --check` does. The library calls it where checking is set.
#ifndef SOFTHCA_CHECK_H
#define SOFTHCA_CHECK_H

#include "findings.h"
#include "softhca.h"

#include <limits.h>

// checking is set before main, and never changes. In the child of a fork the checker goes on.
extern bool checking;

// stack.c

// STACK_MAX is the number of calls that a stack has at most; further ones are left out.
enum { STACK_MAX = 24 };

// stack is a stack of calls of the program, without those of this library. Stacks are unique, and never freed.
struct stack {
	struct stack *next;
	uint64_t hash;
	unsigned n;
	uintptr_t pc[STACK_MAX]; // return addresses, innermost first
};

// stack_here returns the stack of the calling thread.
const struct stack *stack_here(void);
void start_stacks(void);

// place is a call in a file that the program has loaded.
struct place {
	char file[PATH_MAX]; // empty: it is in none, and offset is its address
	uint64_t offset;     // in the file
	const char *symbol;  // before it, that the dynamic linker knows; NULL: none
	uint64_t symbol_offset;
};

// find_place finds the place of a call by its return address.
void find_place(uintptr_t pc, struct place *p);

// explaining is set before main if the engine's explanations are logged, captured or recorded. Then explained_here
// returns the call of the program that the thread executes.
extern bool explaining;
void explained_here(struct place *p);
void stacks_in_child(void);

// findings.c

// call is a call that a finding is about.
struct call {
	const char *title;
	const struct stack *stack; // NULL: it is not known
};

enum { CALLS = 4 };

extern bool advises; // advice is recorded, too

// found records a bug with the calls that it is about; the first one and the bug are what makes it
// different from others. A title of NULL ends the calls.
__attribute__((format(printf, 3, 4))) void found(enum finding what, const struct call calls[CALLS], const char *format, ...);
bool start_findings(void);
void begin_findings(void);
void count_findings(void);
void findings_in_child(void);

// After hold_fatal, an error that is fatal ends nothing: it is the last finding, and fatal_exit returns the exit code of the
// program instead of 0.
void hold_fatal(void);
int fatal_exit(void);

#define CALLED(...) ((const struct call[CALLS]){__VA_ARGS__})

// name_of writes the name of an object, such as "queue pair 0x000011".
struct name { char text[48]; };
struct name name_of(const struct object *o);

// regions.c

// region is a region as it was registered.
struct region {
	struct region *next;
	const struct device *dev;
	uint32_t key;
	unsigned access;
	uint64_t iova, length;
	uintptr_t addr;
	enum softhca_memory memory;
	handle_t pd;
	const struct stack *made, *ended; // ended: NULL while it is registered
	uint64_t ended_ns;
};

void check_registers(const struct mr *m, const struct softhca_mr *a);
void check_reregisters(const struct mr *m, uint32_t old, const struct softhca_mr *a, bool moves);
void check_deregisters(const struct mr *m);
void regions_in_child(void);

// region_of copies the region with a local key, or what it was until it was deregistered.
bool region_of(const struct device *d, uint32_t key, struct region *out);

// forgets_regions reports whether more regions were deregistered than the checker remembers.
bool forgets_regions(void);

// registered reports whether memory may belong to a region, now or earlier.
bool registered(const void *p, size_t n);

// address_of returns where in the program's memory a range of a region is. It reports false if the range is
// not in the region, or the region is not of the program's memory.
bool address_of(const struct region *r, uint64_t addr, uint64_t length, uintptr_t *out);

// requests.c
void check_new_qp(struct qp *q);
void check_new_srq(struct srq *s, uint32_t max_wr);
void check_resizes(struct srq *s);
// check_unlinks has the checker ignore a queue pair whose queues are about to end; check_links undoes it.
void check_unlinks(struct qp *q);
void check_links(struct qp *q);
void check_frees_qp(struct qp *q);
void check_frees_srq(struct srq *s);
void requests_in_child(void);

// poll_frame is the frame of the function by which the calling thread polls.
extern __thread void *poll_frame;

// check_polls notes that the calling thread polls a queue, by the function with a frame. It reports false, and
// records why, if another thread destroys the queue. Otherwise check_polled follows.
bool check_polls(struct cq *q, void *frame);
void check_polled(struct cq *q);

// check_ah notes the address handle of the request that the calling thread posts.
void check_ah(const struct ah *a);

// check_full_sends, check_full_receives and check_full_srq report whether a queue is full, as a program must expect it
// to be. new is the number of requests that the program posts and that check_sends has not seen.
bool check_full_sends(struct qp *q, uint32_t new);
bool check_full_receives(struct qp *q);
bool check_full_srq(struct srq *s);

// check_sends looks at the requests in a send queue from index first to before end, check_receives and
// check_srq_receives at a receive. The engine has not seen them yet.
void check_sends(struct qp *q, uint32_t first, uint32_t end);
void check_receives(struct qp *q, uint32_t index);
void check_srq_receives(struct srq *s, uint32_t index);

// check_completes looks at a completion that the program polls.
void check_completes(struct cq *c, const struct ring_cqe *e);

// thread is what the library that reports freed memory keeps for a thread. The checker uses no thread-local variables of
// its own while memory is freed: the dynamic linker may be freeing it, to make room for them.
struct softhca_thread {
	int in_checker; // not 0 while the thread allocates memory for the checker, perhaps with a lock held
	bool has_goes;  // a request was found whose memory may go
};

// enter_checker and leave_checker change in_checker of the calling thread.
void enter_checker(void);
void leave_checker(void);

// this_thread returns that of the calling thread; it is NULL if the library is not loaded.
extern struct softhca_thread *(*this_thread)(void);

// check_memory_goes is called for memory that the program frees or unmaps, as capi/memory says. It gives up where it
// would have to wait for a lock.
void check_memory_goes(const void *p, size_t n, int step);

// user is a request that uses a region; posted is NULL if there is none.
struct user {
	const struct stack *posted;
	const char *operation;
	uint32_t length;
};

// check_region_goes looks for one before a region ends. check_region_went records it when the region has ended; key
// is the key that it had.
struct user check_region_goes(const struct mr *m);
void check_region_went(const struct mr *m, uint32_t key, const struct user *u, const char *how);

// check_state notes a new state of a queue pair.
void check_state(struct qp *q, enum ibv_qp_state to);

// qp_made returns where the program created the queue pair with a number; NULL if there is none.
const struct stack *qp_made(const struct device *d, uint32_t qpn);

// request_changed notes that the payload of the request with an index in a send queue was another when the adapter
// repeated a packet.
void request_changed(const struct device *d, uint32_t qpn, uint32_t index);

// notes.c

// The engine calls check_refusal when an adapter refuses an access of a peer, and check_change when payload has
// changed. check_notes records what it has reported.
void check_refusal(void *device, const struct softhca_refusal *r);
void check_change(void *device, uint32_t qpn, uint32_t index);
void check_notes(void);
void notes_in_child(void);

// tsan.c

// tsan_runs is set if the program has ThreadSanitizer.
extern bool tsan_runs;

// tsan_begins is called before the first post, tsan_in_child in the child of a fork.
void tsan_begins(void);
void tsan_in_child(void);

// Between tsan_hides and tsan_shows, TSan sees neither accesses to memory nor the order of threads by mutexes. The
// checker's locks order threads that the program does not.
void tsan_hides(void);
void tsan_shows(void);

// check.c

// adapter_writes has the newest writes of all adapters to memory of the program.
extern struct softhca_writes adapter_writes;

// asan_poisoned returns the first poisoned byte of a range, NULL if there is none. It is NULL in a program
// without AddressSanitizer.
extern void *(*asan_poisoned)(void *addr, size_t n);

// check_ended records the use of an object that the program has destroyed, and reports whether it has.
bool check_ended(const struct object *o);
bool check_ended_twice(const struct object *o);

// check_uses_ended does it for the objects that a new queue pair is to use.
bool check_uses_ended(const struct ibv_pd *pd, const struct ibv_qp_init_attr *a);

// check_forgets frees what the checker knows of an object. check_keeps also keeps the memory of a destroyed object for some time, so that uses of it are noticed. memory is
// what is to be freed.
void check_forgets(struct object *o);
void check_keeps(struct object *o, void *memory);

// check_busy records that an object cannot be destroyed, with one that uses it.
void check_busy(const struct object *o, struct ibv_context *in);

// check_closes records the objects that are left in a context which the program closes.
void check_closes(const struct context *c);

// check_refused records a call that failed with EINVAL, and why.
void check_refused(const char *call, const char *why);

// check_arms, check_settings: the program arms a queue; it has modified a queue pair.
void check_arms(const struct cq *q);
void check_settings(struct qp *q, const struct ibv_qp_attr *a, int mask);

// check_acks and check_async_acks record events that the program is about to acknowledge, and has not read.
void check_acks(struct ibv_cq *q, unsigned n);
void check_async_acks(struct ibv_context *in, const struct object *o, const uint32_t *completed, const unsigned *taken);

// check_hides overwrites what means nothing in a completion with an error, so that programs that read it notice.
void check_hides(struct ibv_wc *wc);
void check_hides_entry(struct ring_cqe *e);

// await_ack waits for an acknowledgement. It records a finding if that takes long. The lock is held.
void await_ack(const struct object *o, pthread_cond_t *cond, pthread_mutex_t *mu, enum finding what);

// waited is what a thread that sleeps on a channel waits for although nothing may wake it.
struct waited {
	const struct cq *q; // NULL: a completion can wake it
	uint32_t cons, prod;
	uint64_t at; // time of the look
};

// check_sleeps returns that before a sleep; check_slept records it after a long one.
struct waited check_sleeps(const struct channel *ch);
void check_slept(const struct channel *ch, const struct waited *before);

// check_blocks does both before a thread blocks in a read of the descriptor.
void check_blocks(const struct channel *ch);

// SLOW_NS is how long a thread sleeps before the checker tests whether a completion can wake it.
enum { SLOW_NS = 1000000000 };

// unpolled counts completions that the program has not polled.
struct unpolled {
	unsigned all, errors; // errors that are not flushes
};

// check_ends notes that a queue is about to be destroyed, waits for threads that poll it, and counts what is in it.
// check_unpolled_qp counts what a queue pair that is about to be destroyed has in its queues. check_destroys and
// check_destroys_qp record what is lost when they have been destroyed.
struct unpolled check_ends(struct cq *q);
struct unpolled check_unpolled_qp(const struct qp *q);
void check_destroys(const struct cq *q, const struct unpolled *u);
void check_destroys_qp(const struct qp *q, const struct unpolled *u);

// check_unread_cm records events of rdma_cm that the program has not read.
void check_unread_cm(void);

// check_exit records what is left when the program ends. After check_ends_at_once it does nothing: the program ends at its
// first error. After check_crashes it records only what was found before: what a program that crashes leaves is no bug.
void check_exit(void);
void check_ends_at_once(void);
void check_crashes(void);

// check_overran records that a queue has overrun.
void check_overran(const struct cq *q);

#endif
