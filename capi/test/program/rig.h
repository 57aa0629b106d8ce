// Shared by the scenarios: an open adapter, and two of its queue pairs that are connected
// with each other.
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// must ends the program if an expression is false, and prints it.
#define must(what)                                                                             \
	do {                                                                                   \
		errno = 0;                                                                     \
		if (!(what)) {                                                                 \
			fprintf(stderr, "%s:%d: failed: %s (errno %d, %s)\n", __FILE__, __LINE__, #what, errno, strerror(errno)); \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

enum { BUF = 1 << 16, DEPTH = 64, SIDES = 2, QKEY = 0x1234 };

struct rig {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq[SIDES];
	struct ibv_qp *qp[SIDES];
	struct ibv_mr *mr[SIDES];
	char *buf[SIDES];
	struct ibv_srq *srq; // of side 1, if any
	bool shared;         // side 1 uses an SRQ
	int cqe;             // entries of side 0's completion queue; 0: enough for all
	uint8_t retry, timeout, rnr_retry;
	uint8_t reads; // max_rd_atomic; 0: 4
	uint8_t sgid_index; // from which the queue pairs of connections send
};

// scenario is a named test of the program.
struct scenario {
	const char *name;
	void (*run)(void);
};

// The scenarios of the other files; the last has no name.
extern const struct scenario errors[], crowds[], connects[], caught[], children[], laters[], xrcs[], extending[], naming[], refusing[], files[], refusing_cm[], sending[], memories[], ordered[], recorded[], recorded_posts[], recorded_events[], recorded_ends[], recorded_handlers[], recorded_domains[], windowed[], modes[], sets[], recorded_sets[], recorded_nasty[];

enum { ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

static inline pid_t begin_child(void)
{
	pid_t pid = fork();
	must(pid >= 0);
	return pid;
}

// exit_code waits until a child exits.
static inline int exit_code(pid_t child)
{
	int status;
	must(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static inline void ended_well(pid_t child) { must(exit_code(child) == 0); }

// now_ns returns the time of a clock that is never set.
static inline int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct ibv_context *open_first(void);
struct ibv_qp *make_qp(struct rig *r, enum ibv_qp_type t, int side);
void to_init(struct ibv_qp *q);
void to_rtr(struct rig *r, struct ibv_qp *q, struct ibv_qp *to);
void to_rts(struct rig *r, struct ibv_qp *q);
void connect_qp(struct rig *r, struct ibv_qp *q, struct ibv_qp *to);
void rig_open(struct rig *r, enum ibv_qp_type t);
void rig_close(struct rig *r);
void rig_drop(struct rig *r);
struct ibv_ah_attr to_self(struct ibv_context *c);

int post(struct rig *r, int side, enum ibv_wr_opcode op, uint32_t n);
void receive(struct rig *r, int side, uint32_t n);
struct ibv_wc wait_wc(struct ibv_cq *q);
void want(struct ibv_cq *q, enum ibv_wc_status s);

// interrupt is a thread that sends the process a signal when its main thread sleeps until a
// descriptor is readable.
pthread_t interrupt(int sig);

// sleep_for_completion posts a write, and sleeps until it has completed. The first sleep on a
// channel creates descriptors.
void sleep_for_completion(struct rig *r);
