// The test agent: one file per kind of object, and request.c, command.c and controller.c for the
// protocol, which agent.c describes. The Go package prints all files as one.
#ifndef AGENT_H
#define AGENT_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	LINE_MAX_BYTES = 65536, // a request or a reply, newline included
	TOKENS_MAX = 4096,
	OBJECTS_MAX = 4096,
	EVENTS_MAX = 512,
	WAIT_MAX_MS = 60000,
};

// agent.c
extern struct ibv_context *ctx;
extern uint8_t port;

// request.c
struct request {
	int n;
	const char *key[TOKENS_MAX]; // ";" stands between work requests
	const char *value[TOKENS_MAX];
};

// A name in requests; a table of names ends with NULL.
struct name {
	const char *text;
	uint64_t value;
};

extern struct request rq;
extern char reply[LINE_MAX_BYTES];
extern size_t reply_len;
extern bool reply_full;
extern bool failed; // an error was written into reply

void begin_reply(void);
__attribute__((format(printf, 1, 2))) void put(const char *format, ...);
__attribute__((format(printf, 2, 3))) void fail(int err, const char *format, ...);
bool ready(void);
int error_of(int rc);
bool done(int rc, const char *verb);
const char *find(int from, int to, const char *key);
bool given(const char *key);
uint64_t to_number(const char *key, const char *s, uint64_t max);
uint64_t number_in(int from, int to, const char *key, uint64_t otherwise, uint64_t max);
uint64_t number(const char *key, uint64_t otherwise, uint64_t max);
uint64_t names_in(int from, int to, const struct name *names, const char *key, uint64_t otherwise);
bool to_gid(const char *key, const char *s, union ibv_gid *gid);

// object.c
enum kind { FREE, PD, MR, CQ, SRQ, QP, AH, MW };

struct object {
	enum kind kind;
	union {
		struct ibv_pd *pd;
		struct ibv_mr *mr;
		struct ibv_cq *cq;
		struct ibv_srq *srq;
		struct ibv_qp *qp;
		struct ibv_ah *ah;
		struct ibv_mw *mw;
		void *any;
	};
	// MR: the mapping around it; addr are its bytes.
	uint8_t *map, *addr;
	size_t map_len, len;
	// CQ: its channel, or NULL.
	struct ibv_comp_channel *channel;
};

extern const char *const KIND_NAMES[];
extern struct object objects[OBJECTS_MAX]; // the handle is the index; 0 is none

bool may_create(void);
int created(enum kind kind, void *any, const char *verb);
struct object *object(enum kind kind, const char *key, uint64_t handle);
struct object *object_in(int from, int to, enum kind kind, const char *key);
struct object *arg(enum kind kind, const char *key);
int handle_of(enum kind kind, const void *any);
void destroy_all(void);
void do_destroy(void);

// device.c
void do_hello(void), do_counters(void);

// event.c
void take_events(void);
void forget_events(void);
void do_events(void);

// memory.c
extern const struct name ACCESS[];
void unmap(struct object *o);
void do_pd(void), do_mr(void), do_fill(void), do_verify(void), do_guard(void), do_sum(void), do_read(void), do_write(void), do_mw(void);

// queue.c
void do_cq(void), do_resize(void), do_poll(void), do_arm(void), do_notified(void), do_srq(void), do_srq_limit(void);

// qp.c
void do_qp(void), do_modify(void), do_query(void), do_ah(void);

// post.c
void do_post(void), do_recv(void), do_bind(void);

// multicast.c
void forget_groups(int qp);
void leave_groups(void);
void do_attach(void), do_detach(void);

// command.c
void do_help(void);
void execute(char *line);

// controller.c
bool controller_left(void);
void listen_on(const char *address, const char *service);
int serve(void);

#endif
