// Shared by the scenarios of librdmacm's calls.
#define _GNU_SOURCE
#include "../program/rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sys/wait.h>

// refused ends the program unless a call fails with an error number.
#define refused(call, why)                                                                     \
	do {                                                                                   \
		errno = 0;                                                                     \
		long got_ = (long)(call);                                                      \
		if (got_ != -1 || errno != (why)) {                             \
			fprintf(stderr, "%s:%d: %s gives %ld (errno %d, %s), not errno %d (%s)\n", __FILE__, __LINE__, #call, got_, errno, \
				strerror(errno), (why), strerror(why));                        \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

enum { PORT = 7471, TIMEOUT_MS = 2000 };

// Why a request is rejected.
enum { INVALID_SERVICE = 8, CONSUMER_REJECTS = 28 };

// The scenarios of the other files; the last has no name.
extern const struct scenario backlogs[], privates[], options[], endpoints[], moves[], ports[], groups[], events[], orders[], parameters[],
	threads[], deaths[], sixes[], endings[], titles[], closings[], unreads[], wrongs[];

struct sockaddr_in here(int port);
struct rdma_event_channel *open_channel(void);
struct rdma_cm_id *make_id(struct rdma_event_channel *ch, enum rdma_port_space ps);
void destroy(struct rdma_cm_id *id);
int bind_to(struct rdma_cm_id *id, int port);
struct rdma_cm_id *listen_on(struct rdma_event_channel *ch, enum rdma_port_space ps, int port, int backlog);

struct rdma_cm_event *event_of(struct rdma_event_channel *ch, enum rdma_cm_event_type type);
struct rdma_cm_id *failure(struct rdma_event_channel *ch, enum rdma_cm_event_type type, int status);
struct rdma_cm_id *pass(struct rdma_event_channel *ch, enum rdma_cm_event_type type);
void quiet(struct rdma_event_channel *ch);

void begin_resolve(struct rdma_cm_id *id, int port);
void resolve(struct rdma_cm_id *id, int port);
void add_qp(struct rdma_cm_id *id);
struct rdma_cm_id *ready(struct rdma_event_channel *ch, enum rdma_port_space ps, int port);
struct rdma_conn_param params(const void *data, int n);
void ask(struct rdma_cm_id *client);
void establish(struct rdma_cm_id *client, struct rdma_cm_id *server, struct rdma_conn_param p);
void hang_up(struct rdma_cm_id *client, struct rdma_cm_id *server, struct rdma_cm_id *listener);

// A connection of the program with itself.
struct link {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener, *client, *server;
};

void link_up(struct link *l, enum rdma_port_space ps);
void link_down(struct link *l);

pid_t start(void (*child)(int to_parent, int from_parent), int *from_child, int *to_child);
void say(int fd);
void hear(int fd);
