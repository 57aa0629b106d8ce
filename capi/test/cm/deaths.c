// Processes that are killed: their peers, connected or connecting, get the events that they get
// when Linux cleans up after a killed process.
#include "cm.h"

#include <signal.h>
#include <time.h>

enum { SECOND = 1000000000 };

static void kill_off(pid_t child)
{
	int status;
	must(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

// soon checks that less than 10 seconds have passed: a step may take that long on a busy machine
// that should happen at once.
static void soon(int64_t since) { must(now_ns() - since < (int64_t)10 * SECOND); }

// The server accepts one of two connections, and leaves the other request pending.
static void serves(int parent, int from)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_conn_param p = params(NULL, 0);
	listen_on(ch, RDMA_PS_TCP, PORT, 2);
	say(parent);
	struct rdma_cm_id *id = pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	add_qp(id);
	must(rdma_accept(id, &p) == 0);
	must(pass(ch, RDMA_CM_EVENT_ESTABLISHED) == id);
	pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	say(parent);
	hear(from);
}

static void of_servers(void)
{
	int from, to;
	pid_t child = start(serves, &from, &to);
	hear(from);
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *connected = ready(ch, RDMA_PS_TCP, PORT), *waits = ready(ch, RDMA_PS_TCP, PORT);
	ask(connected);
	must(pass(ch, RDMA_CM_EVENT_ESTABLISHED) == connected);
	ask(waits);
	hear(from);
	quiet(ch);
	int64_t since = now_ns();
	kill_off(child);
	for (int i = 0; i < 2; i++) {
		struct rdma_cm_event *e;
		must(rdma_get_cm_event(ch, &e) == 0);
		must((e->id == connected && e->event == RDMA_CM_EVENT_DISCONNECTED && e->status == 0) || (e->id == waits && e->event == RDMA_CM_EVENT_REJECTED));
		must(rdma_ack_cm_event(e) == 0);
	}
	soon(since);

	// The listener is gone.
	struct rdma_cm_id *late = ready(ch, RDMA_PS_TCP, PORT);
	ask(late);
	must(failure(ch, RDMA_CM_EVENT_REJECTED, INVALID_SERVICE) == late);
	destroy(connected);
	destroy(waits);
	destroy(late);
}

// The client establishes a connection, and requests another.
static void asks(int parent, int from)
{
	hear(from);
	struct rdma_event_channel *ch = open_channel();
	ask(ready(ch, RDMA_PS_TCP, PORT));
	pass(ch, RDMA_CM_EVENT_ESTABLISHED);
	ask(ready(ch, RDMA_PS_TCP, PORT));
	say(parent);
	hear(from);
}

static void of_clients(void)
{
	int from, to;
	pid_t child = start(asks, &from, &to);
	struct rdma_event_channel *ch = open_channel();
	struct rdma_conn_param p = params(NULL, 0);
	struct rdma_cm_id *listener = listen_on(ch, RDMA_PS_TCP, PORT, 2);
	say(to);
	struct rdma_cm_id *connected = pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	add_qp(connected);
	must(rdma_accept(connected, &p) == 0);
	must(pass(ch, RDMA_CM_EVENT_ESTABLISHED) == connected);
	struct rdma_cm_id *waits = pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	hear(from);
	int64_t since = now_ns();
	kill_off(child);
	must(pass(ch, RDMA_CM_EVENT_DISCONNECTED) == connected);
	soon(since);
	quiet(ch); // the request that was not accepted raises no event
	destroy(connected);
	destroy(waits);
	destroy(listener);
}

const struct scenario deaths[] = {{"death-server", of_servers}, {"death-client", of_clients}, {NULL, NULL}};
