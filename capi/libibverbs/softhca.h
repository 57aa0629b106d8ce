// Shared declarations of the library: its objects, each of which begins with the verbs' object,
// and the calls into the engine.
#ifndef SOFTHCA_H
#define SOFTHCA_H

#include "../../internal/ring/cpeer/ring.h"
#include "../engine/engine.h"
#include "lock.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

#define EXPORT __attribute__((visibility("default")))
// LATER defines a function of libibverbs under another name in C, so that it compiles with all
// headers: a function that only some headers declare, or that takes no parameters because it looks
// at none.
#define LATER(result, name, ...)                                     \
	EXPORT result later_##name(__VA_ARGS__) __asm__(#name);      \
	result later_##name(__VA_ARGS__)

// REFUSES defines a function for something that the adapter does not support.
#define REFUSES(name) \
	LATER(int, name, void) { return unsupported(); }
#define REFUSES_POINTER(name) \
	LATER(void *, name, void) { return fail(EOPNOTSUPP); }

#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define CONTAINER(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))

enum { MAX_DEVICES = 16, PORT = 1 };

// How long, in ns, requests may wait to be sent together with later ones. After that, the next
// post sends them, or the next poll that finds completions.
enum { OVERDUE = 20000 };

// node is an adapter that ibv_get_device_list shows and that can be opened. It exists as long
// as the process.
struct node {
	struct ibv_device ibv;
	// Libraries of other vendors look for their own operations after ibv_device, and must
	// find others.
	const void *ops;
	char room[64];
	int index;
	char addr[256];
};

// device is an open adapter; all contexts of a node share it.
struct device {
	struct node *node;
	const struct softhca_calls *calls;
	handle_t handle;
	struct softhca_adapter info;
	int contexts;                // guarded by the lock of loader.c
	_Atomic int gone;            // in the child of a fork: the engine is the parent's
	_Atomic uint64_t waits;      // time since which requests wait to be sent with later ones, in ns; 0: none wait
	pthread_mutex_t mu;          // guards the list that begins at first
	struct context *first;       // the contexts that get events of the port
	struct device *next;         // of all open devices
};

// source is a list of events, and a descriptor that is readable while the list is not empty.
struct source {
	int fd;
	pthread_mutex_t mu;
};

// ends is what ends the sleep of a thread in the engine. One thread at a time uses it.
struct ends {
	int fd;           // readable when the thread is to wake; -1: not created yet
	int signals;      // readable for pending signals that are not in blocked
	sigset_t blocked; // the signals that the program blocks
};

struct context {
	struct device *dev;
	struct source source; // of asynchronous events
	struct note *head, *tail;
	unsigned notes;
	struct object *objects; // guarded by source.mu
	bool closing;           // set before the remaining objects are destroyed
	struct context *next;
	struct verbs_context v; // must be the last member
};

// kind is a kind of object.
struct kind {
	const char *name;
	int rank; // a context that closes destroys objects of larger ranks first
	int (*destroy)(struct object *);
};

// object is common to all objects: a context that closes finds its remaining objects by it.
struct object {
	struct object *next, **prev;
	const struct kind *kind;
	uint32_t number; // its handle, or the number of a queue pair
	const struct stack *made, *ended; // of the checker
	_Atomic bool told_waiting;        // of the checker: that its end waits for an acknowledgement
	bool outlives;   // its context is closed, which ended the object; the program may still destroy it
};

struct pd {
	struct ibv_pd ibv;
	struct object o;
	handle_t handle;
	struct pd *parent; // of a parent domain
	struct td *td;     // of a parent domain; may be NULL
	_Atomic int children;

	// The program's functions for the memory of queues; NULL: the engine allocates it.
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment, uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
};

// resource is the type of queue that the program's functions get as resource_type.
enum resource { RESOURCE_SEND = 1, RESOURCE_RECV, RESOURCE_SRQ, RESOURCE_CQ };

// room is memory of a queue that the program has allocated.
struct room {
	struct pd *domain; // NULL: the engine has allocated the memory
	void *addr;
	enum resource type;
};

struct mr {
	struct ibv_mr ibv;
	struct object o;
	handle_t handle;
	unsigned access;
	void *mapping; // of a DMA-buf; NULL: the region is of other memory
	size_t mapped;
	bool imported; // a second name of the region, which cannot destroy it
};

struct dm {
	struct ibv_dm ibv;
	struct object o;
	handle_t handle;
	uint8_t *memory;
	uint64_t length;
	bool imported; // a second name of the memory, which cannot free it
};

struct ah {
	struct ibv_ah ibv;
	struct object o;
	handle_t pd; // of the protection domain itself, also if the program used a parent domain
	uint64_t handle;
};

struct channel {
	struct ibv_comp_channel ibv; // source.mu guards its refcnt
	struct object o;
	struct source source;
	struct cq *head, *tail;
	int ready;           // head is not NULL; written with the lock held, atomically
	_Atomic int asleep;  // a thread sleeps in the engine and uses ends
	struct ends ends;
	struct set *_Atomic set; // the program's epoll set with the descriptor, NULL for none; it is still that if its
	unsigned served;         // number of periods is this; guarded by the lock of epoll.c
};

struct cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;
	};
	struct object o;
	handle_t handle;
	struct ring *ring;
	struct device *dev;
	_Atomic int armed; // since the last poll of the empty queue
	_Atomic int told;  // number of entries announced by an event since the last poll,
	_Atomic uint32_t told_to; // all of them before this index
	_Atomic unsigned idle;
	_Atomic bool ending; // the ring may be gone

	// Guarded by the channel's lock: the pending completion events, and how many the
	// program has read.
	struct cq *next;
	unsigned pending, taken;
	unsigned async_taken; // guarded by the source of the context

	// Between start_poll and end_poll.
	_Atomic uint32_t polling;
	bool shared; // several threads may call start_poll
	bool timed;  // entries are of ring_timed_cqe
	struct ring_cqe cqe;
	uint64_t time; // of the entry, CLOCK_MONOTONIC in ns; in a timed queue

	struct pd *domain;      // the parent domain that it was created with; NULL: none
	struct room room;
	_Atomic bool moderated; // its events are delayed
	_Atomic int due, pollers; // of the checker: completions of posted requests; threads that poll
	pthread_t taker;          // of the checker: the thread that has read the newest event
	const struct stack *destroying; // of the checker: where a thread destroys it
	_Atomic bool polled_elsewhere;  // of the checker: a thread polls it that has not read its newest event
};

struct srq {
	struct ibv_srq ibv;
	struct object o;
	handle_t handle;
	struct ring *ring;
	_Atomic uint32_t lock;
	struct room room;
	uint32_t max_sge;
	bool watched;
	struct requests *receives; // of the checker
	struct ibv_xrcd *xrcd; // of XRC, otherwise NULL; then also
	uint32_t num;
	unsigned async_taken; // guarded by the source of the context
};

// Names that the headers of rdma-core 44 lack. Those for ODP are missing in later headers, too.
enum {
	WR_FLUSH = 14,                     // IBV_WR_FLUSH
	QP_EX_WITH_FLUSH = 1 << 11,        // IBV_QP_EX_WITH_FLUSH
	FLUSH_TYPES = 3,                   // IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT
	FLUSH_MR = 1,                      // the greatest enum ibv_selectivity_level
	ACCESS_FLUSH = 3 << 8,             // IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT
	ODP_SUPPORT_FLUSH = 1 << 6,        // IBV_ODP_SUPPORT_FLUSH
	ODP_SUPPORT_ATOMIC_WRITE = 1 << 7, // IBV_ODP_SUPPORT_ATOMIC_WRITE
};
#define DEVICE_FLUSH_GLOBAL (1ull << 38)     // IB_UVERBS_DEVICE_FLUSH_GLOBAL
#define DEVICE_FLUSH_PERSISTENT (1ull << 39) // IB_UVERBS_DEVICE_FLUSH_PERSISTENT
#define DEVICE_ATOMIC_WRITE (1ull << 40)     // IB_UVERBS_DEVICE_ATOMIC_WRITE

struct qp {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;
		struct {
			char up_to_flush[offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void (*)(void))];
			// The last member of struct ibv_qp_ex in rdma-core 46.
			void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t length, uint8_t type, uint8_t level);
		};
	};
	struct object o;
	handle_t handle;
	struct ring *send, *recv; // recv is NULL with an SRQ, and for XRC
	struct room send_room, recv_room;
	struct ibv_xrcd *xrcd;    // of an XRC target, otherwise NULL
	struct device *dev;
	_Atomic uint32_t send_lock, recv_lock; // of threads that post
	struct softhca_cap cap;
	struct softhca_posted suppressed; // posted without a doorbell; guarded by send_lock
	bool watched, sig_all, extended;
	unsigned async_taken; // guarded by the source of the context

	// Between wr_start and wr_complete.
	uint32_t first, prod;
	uint64_t bytes;
	int failed;

	// Of the checker.
	struct requests *sends, *receives;
	const struct stack *error_polled; // where the program polled an error, and has not set a state since
	const struct stack *path_set;     // where it set an alternate path that is not armed yet
	unsigned access;                  // rights of the peer
	unsigned max_rd_atomic;           // 0: not set
	uint32_t peer;                    // the number of the peer
	struct qp *numbered;              // another one in the table of numbers
};

// The kinds of objects, each in the file of its objects.
extern const struct kind pd_kind, mr_kind, dm_kind, ah_kind, srq_kind, channel_kind, cq_kind, qp_kind, mw_kind, xrcd_kind;

static inline struct context *context_of(struct ibv_context *c) { return CONTAINER(c, struct context, v.context); }
static inline struct device *device_of(struct ibv_context *c) { return context_of(c)->dev; }

// tsan.c

// Between tsan_hides_accesses and tsan_shows_accesses, ThreadSanitizer does not see accesses to memory. Functions that the
// engine calls are in between, because it does not know how the engine's threads are ordered.
void tsan_hides_accesses(void);
void tsan_shows_accesses(void);

// check.c

// was_gone is set by a call into the engine of the thread's parent process.
extern __thread bool was_gone;

// used_in_child records that the child of a fork uses an object of its parent.
void used_in_child(void);
void checks_in_child(void);

// The calls into the engine. A signal handler must not run on one of Go's stacks, so all
// signals but those of faults are blocked during a call.
extern const sigset_t *engine_mask(void);

#define ENGINE(d, call, ...)                                                                   \
	({                                                                                     \
		int result_ = EIO;                                                             \
		may_enter();                                                                   \
		if (!UNLIKELY((d)->gone)) {                                                    \
			sigset_t old_;                                                         \
			pthread_sigmask(SIG_SETMASK, engine_mask(), &old_);                    \
			result_ = (d)->calls->call(__VA_ARGS__);                               \
			pthread_sigmask(SIG_SETMASK, &old_, NULL);                             \
		} else                                                                         \
			was_gone = true;                                                       \
		result_;                                                                       \
	})

// HOT is ENGINE for short calls that programs make all the time. It preserves errno.
#define HOT(d, call, ...)                                                                      \
	({                                                                                     \
		int code_ = EIO, errno_ = errno;                                               \
		if (UNLIKELY((d)->gone))                                                       \
			used_in_child();                                                       \
		else if (may_enter(), enter_unblocked()) {                                     \
			code_ = (d)->calls->call(__VA_ARGS__);                                 \
			leave_unblocked();                                                     \
		} else                                                                         \
			code_ = ENGINE(d, call, __VA_ARGS__);                                  \
		errno = errno_;                                                                \
		code_;                                                                         \
	})

// The failure of a call that returns a pointer.
static inline void *fail(int code)
{
	errno = code;
	return NULL;
}

// abandon is the failure of a call that has allocated memory for an object.
static inline void *abandon(void *memory, int code)
{
	free(memory);
	if (UNLIKELY(code == EIO && was_gone))
		used_in_child();
	return fail(code);
}

// The failure of a call that returns -1.
static inline int failure(int code)
{
	errno = code;
	return -1;
}

// VERB defines a function that programs call. When it fails, errno is the code that it returns;
// functions that return NULL or -1 set errno themselves. When it succeeds, errno keeps the
// value that it had before the call.
#define VERB(type, name, params, ...)                                                          \
	type name params;                                                                      \
	static type name##_verb params;                                                        \
	type name params                                                                       \
	{                                                                                      \
		int before_ = errno;                                                           \
		type result_ = name##_verb(__VA_ARGS__);                                       \
		errno = _Generic(result_, int: errno_of_code, default: errno_of_pointer)(result_, before_); \
		return result_;                                                                \
	}                                                                                      \
	static type name##_verb params

static inline int errno_of_code(int code, int before)
{
	if (code == 0)
		return before;
	return code > 0 ? code : errno;
}

static inline int errno_of_pointer(const void *p, int before) { return p != NULL ? before : errno; }

// The failure of a call for something that the adapter does not support.
static inline int unsupported(void)
{
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

// Functions that libibverbs exports but its header does not declare.
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

// av_of converts an address vector to the engine's form. A flow label has 20 bits; programs
// that have no preference may set them all, and more (UCX does).
static inline struct softhca_av av_of(const struct ibv_ah_attr *a)
{
	struct softhca_av v = {
		.flow_label = a->grh.flow_label & 0xfffff, .sgid_index = a->grh.sgid_index, .hop_limit = a->grh.hop_limit,
		.traffic_class = a->grh.traffic_class, .sl = a->sl, .static_rate = a->static_rate, .port = a->port_num,
	};
	memcpy(v.dgid, a->grh.dgid.raw, sizeof v.dgid);
	return v;
}

// loader.c
struct node **nodes(int *count);
struct device *open_device(struct node *n);
// setting returns the value of a variable, "" if there is none or if the program has more rights
// than the user who set it.
const char *setting(const char *name);
int close_device(struct device *d);
struct node *node_where(bool (*is)(struct device *, const void *), const void *arg);
uint64_t now_ns(void);
void flush_devices(void);
void each_device(void (*f)(struct device *));

// exit.c
void watch_end(void);
void watch_exits(void);
void leave_peers(void);
void end_in_child(void);

// fault.c
void engine_loading(void);
void engine_loaded(const void *in);
void keep_faults(void);
void faults_in_child(void);
bool of_engine(uintptr_t pc);
bool sets_engines(void);

// guarded calls a function that reads n bytes of the program's memory. It returns false if they are not mapped.
bool guarded(void (*read)(void *arg), void *arg, const void *at, size_t n);

// signals.c
bool enter_unblocked(void);
void leave_unblocked(void);
void seek_signals(void);
void seek_handlers(void);
void signals_in_child(void);

// files.c
int keep_open(int fd);
bool is_marked(int fd);
int close_kept(int fd);
void watch_files(void);
bool owns_engine(void);
struct standard {
	dev_t dev; // of the file that occupies the numbers
	ino_t ino;
	bool held[3];
};
void hold_standard(struct standard *s);
void release_standard(const struct standard *s);
void files_in_child(void);

// cancel.c
bool enter_sleep(void);
void leave_sleep(void);
int sleep_off(void);
void seek_cancels(void);
void cancels_in_child(void);

// ends.c
bool interrupts(const sigset_t *blocked, bool any);
int ends_of(struct ends *e, const sigset_t *blocked, int also);
void close_ends(struct ends *e);

// nasty.c
uint32_t another_handle(uint64_t seed, uint32_t handle);

// visible returns the handle of an object that programs see. Only the program uses it.
static inline uint32_t visible(const struct device *d, handle_t h)
{
	return !UNLIKELY(d->info.nasty_numbers) ? (uint32_t)h : another_handle(d->info.nasty_numbers, (uint32_t)h);
}

// epoll.c
void watch_channel(struct channel *ch);
void forget_channel(struct channel *ch);
void forget_in_child(struct channel *ch);
void ready_set(struct channel *ch);
void sets_in_child(void);

// ucm.c
void cm_before_fork(void);
void cm_after_fork(void);
void cm_in_child(void);
void cm_disconnect(void);

// context.c
void add_object(struct ibv_context *c, struct object *o, const struct kind *kind, uint32_t number);
void release_object(struct ibv_context *c, struct object *o, void *memory);
bool outlived(const struct object *o, void *memory);
void set_ops(struct context *c);
struct ibv_context *open_context(struct node *n, int cmd_fd);

// import.c
int command_fd(void);

// object.c
int free_pd(struct object *o);
struct mr *new_mr(struct ibv_pd *pd, void *addr, size_t length, struct softhca_mr *a);
struct ibv_pd *pd_of(struct ibv_context *c, struct pd *parent, struct td *td);

// room.c
int take_room(struct pd *d, struct room *r, enum resource type, struct softhca_room *out);
void return_room(struct room *r, bool left);

// dmabuf.c
void unmap_dmabuf(struct mr *m);

// event.c
int source_init(struct source *s);
void source_free(struct source *s);
void completed(void *cq);
void event(void *device, void *object, uint32_t type);
void forget_async(struct ibv_context *c, void *object);
void forget_completions(struct cq *q);
void drop_notes(struct context *c);
void events_in_child(struct device *d);

// The functions in ibv_context.ops and verbs_context.
struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int bind_mw(struct ibv_qp *q, struct ibv_mw *m, struct ibv_mw_bind *b);
int dealloc_mw(struct ibv_mw *m);
int poll_cq(struct ibv_cq *q, int n, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *q, int solicited);
int post_send(struct ibv_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *q, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int post_srq_recv(struct ibv_srq *s, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *a, size_t size);
int query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in, struct ibv_device_attr_ex *a, size_t size);
int modify_cq(struct ibv_cq *q, struct ibv_modify_cq_attr *a);
int query_rt_values(struct ibv_context *c, struct ibv_values_ex *v);
struct ibv_cq_ex *create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a);
struct ibv_qp *create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a);
struct ibv_srq *create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *a);
int modify_qp_rate_limit(struct ibv_qp *q, struct ibv_qp_rate_limit_attr *a);
struct ibv_td *alloc_td(struct ibv_context *c, struct ibv_td_init_attr *a);
int dealloc_td(struct ibv_td *t);
struct ibv_pd *alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *a);
struct ibv_mr *alloc_null_mr(struct ibv_pd *pd);
int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list, uint32_t n);
struct ibv_dm *alloc_dm(struct ibv_context *c, struct ibv_alloc_dm_attr *a);
int free_dm(struct ibv_dm *ibv);
struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibv, uint64_t offset, size_t length, unsigned access);

// xrc.c, and open_qp in qp.c
struct ibv_xrcd *open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *a);
int close_xrcd(struct ibv_xrcd *x);
int get_srq_num(struct ibv_srq *s, uint32_t *num);
struct ibv_qp *open_qp(struct ibv_context *c, struct ibv_qp_open_attr *a);
handle_t use_xrcd(struct ibv_xrcd *x);
void unuse_xrcd(struct ibv_xrcd *x);
void domains_in_child(void);

// cq.c

// queue_in_child has the copy of a completion queue in the child of a fork write nothing to the
// parent's table of objects, whose memory both share. It ignores other objects.
void queue_in_child(struct object *o);
int empty_poll(struct cq *q);
void overdue(struct device *d);

// post.c
void fill_wr_ops(struct qp *q, uint64_t ops);
uint64_t wr_ops(enum ibv_qp_type t);
int ring_doorbell(struct qp *q, struct softhca_posted *p);

// refused_send, refused_recv and refused_srq_recv tell the engine why a call has refused a request with EINVAL. wr is NULL for
// a list of the extended calls.
void refused_srq_recv(struct srq *s, const struct ibv_recv_wr *wr);
void refused_send(struct qp *q, char *call, const struct ibv_send_wr *wr);
void refused_recv(struct qp *q, const struct ibv_recv_wr *wr);

static inline void *ring_entry(const struct ring *r, uint32_t i)
{
	return (uint8_t *)(uintptr_t)r->entries + (size_t)(i & r->mask) * r->stride;
}

// ring_to returns the address of a datagram.
static inline struct ring_to *ring_to(const struct ring *r, const struct ring_send *e) { return (struct ring_to *)((uint8_t *)e + r->stride) - 1; }

#endif
