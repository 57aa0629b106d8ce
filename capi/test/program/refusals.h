// Shared by the cases of refused calls. Each case makes such a call and prints a line, with
// tabs between the function, the condition, the return value, errno and the asynchronous
// event that the call raised. testdata/refusals.tsv has the same lines, and next to them
// what rdma-core and Linux do.
#include "rig.h"

// UNTOUCHED is errno before each call. A line says "kept" if the call does not change it.
enum { UNTOUCHED = 4242 };

// watch checks that a refused call leaves memory unchanged: outputs, which are poisoned
// before, and fields of public structures. It applies to the next line only.
void watch(void *p, size_t size);
void poison(void *p, size_t size);

// Each prints the line of a call that returns an error code, a pointer, or a number.
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

// event_of adds to the next line the event that the call raised.
void event_of(struct ibv_context *c);

// The cases, by subject.
void refuse_devices(struct rig *r);
void refuse_domains(struct rig *r);
void refuse_memory(struct rig *r);
void refuse_windows(struct rig *r);
void refuse_addresses(struct rig *r);
void refuse_srqs(struct rig *r);
void refuse_cqs(struct rig *r);
void refuse_events(struct rig *r);
void refuse_qps(struct rig *r);
void refuse_moves(struct rig *r);
void refuse_groups(struct rig *r);
void refuse_posts(struct rig *r);
void refuse_builders(struct rig *r);
void refuse_xrc(struct rig *r);
void refuse_unprovided(struct rig *r);
void refuse_later(struct rig *r);
void refuse_device_memory(struct rig *r);
