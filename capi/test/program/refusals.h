// What the cases of refusals have in common: each makes a call that is refused, and
// prints a line with the function, the condition, what the call returned, errno and the
// asynchronous event that came of it, with tabs between. testdata/refusals.tsv has the
// same lines, and next to them what rdma-core and Linux do.
#include "rig.h"

// UNTOUCHED is errno before each call: a line says "kept" if it is so afterwards.
enum { UNTOUCHED = 4242 };

// watched is what a refused call must leave alone: outputs, which are poisoned before, and
// fields of public structures. It is forgotten after the next line.
void watch(void *p, size_t size);
void poison(void *p, size_t size);

// The lines of calls that return a code, a pointer, or -1 or another number.
void said_code(const char *function, const char *condition, int code, int error);
void said_pointer(const char *function, const char *condition, const void *p, int error);
void said_number(const char *function, const char *condition, long n, int error);

#define SAY(how, function, condition, call)                                                    \
	do {                                                                                   \
		errno = UNTOUCHED;                                                             \
		__auto_type result_ = (call);                                                  \
		int error_ = errno;                                                            \
		how(function, condition, result_, error_);                                     \
	} while (0)

#define CODE_OF(function, condition, call) SAY(said_code, function, condition, call)
#define NULL_OF(function, condition, call) SAY(said_pointer, function, condition, call)
#define NUMBER_OF(function, condition, call) SAY(said_number, function, condition, call)

// event_of has the next line name the event that the call before it raised.
void event_of(struct ibv_context *c);

// The cases, by what they are about.
void refuse_devices(struct rig *r);
void refuse_domains(struct rig *r);
void refuse_memory(struct rig *r);
void refuse_addresses(struct rig *r);
void refuse_srqs(struct rig *r);
void refuse_cqs(struct rig *r);
void refuse_events(struct rig *r);
void refuse_qps(struct rig *r);
void refuse_moves(struct rig *r);
void refuse_groups(struct rig *r);
void refuse_posts(struct rig *r);
void refuse_builders(struct rig *r);
void refuse_unprovided(struct rig *r);
