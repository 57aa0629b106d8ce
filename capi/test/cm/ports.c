// Ports: an ID owns its port against all processes on the address, and an ID that requests
// port 0 gets a free one.
#include "cm.h"

#include <signal.h>
#include <sys/resource.h>

static struct rdma_event_channel *ch;

static int listens(enum rdma_port_space ps, int port)
{
	struct rdma_cm_id *id = make_id(ch, ps);
	int err = bind_to(id, port) == 0 && rdma_listen(id, 1) == 0 ? 0 : errno;
	must(rdma_destroy_id(id) == 0);
	return err;
}

static int binds(enum rdma_port_space ps, int port)
{
	struct rdma_cm_id *id = make_id(ch, ps);
	int err = bind_to(id, port) == 0 ? 0 : errno;
	must(rdma_destroy_id(id) == 0);
	return err;
}

// The other process listens on a port, and binds another ID to a second port.
static void holds(int parent, int from)
{
	ch = open_channel();
	listen_on(ch, RDMA_PS_TCP, PORT, 1);
	must(bind_to(make_id(ch, RDMA_PS_TCP), PORT + 1) == 0);
	say(parent);
	hear(from);
}

static void two_processes(bool killed)
{
	int from, to, status;
	pid_t child = start(holds, &from, &to);
	hear(from);
	ch = open_channel();
	must(listens(RDMA_PS_TCP, PORT) == EADDRINUSE && binds(RDMA_PS_TCP, PORT) == EADDRINUSE);
	must(binds(RDMA_PS_TCP, PORT + 1) == EADDRINUSE);
	must(listens(RDMA_PS_TCP, PORT + 2) == 0 && listens(RDMA_PS_UDP, PORT) == 0 && listens(RDMA_PS_IB, PORT) == 0);
	must(listens(RDMA_PS_TCP, PORT) == EADDRINUSE); // destroying the IDs that were refused the port has not released it
	if (killed)
		must(kill(child, SIGKILL) == 0);
	else
		say(to);
	must(waitpid(child, &status, 0) == child && (killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0));
	must(listens(RDMA_PS_TCP, PORT) == 0); // free at once
	must(binds(RDMA_PS_TCP, PORT + 1) == 0);
}

static void ended(void) { two_processes(false); }
static void killed(void) { two_processes(true); }

// The same with the roles exchanged: this process opens the adapter first.
static void comes(int parent, int from)
{
	hear(from);
	ch = open_channel();
	must(listens(RDMA_PS_TCP, PORT) == EADDRINUSE && binds(RDMA_PS_TCP, PORT) == EADDRINUSE);
	say(parent);
	hear(from);
	must(listens(RDMA_PS_TCP, PORT) == 0);
	say(parent);
	hear(from);
}

static void second(void)
{
	int from, to;
	pid_t child = start(comes, &from, &to);
	ch = open_channel();
	struct rdma_cm_id *id = listen_on(ch, RDMA_PS_TCP, PORT, 1);
	say(to);
	hear(from);
	must(rdma_destroy_id(id) == 0);
	say(to);
	hear(from);
	must(listens(RDMA_PS_TCP, PORT) == 0); // the other process destroyed its ID
	say(to);
	ended_well(child);
}

// Later processes take the port one after the other. Each is killed or releases the port before
// the next one takes it.
static void guest(int parent, int from)
{
	hear(from);
	ch = open_channel();
	struct rdma_cm_id *id = listen_on(ch, RDMA_PS_TCP, PORT, 1);
	say(parent);
	hear(from);
	must(rdma_destroy_id(id) == 0);
	say(parent);
	hear(from);
}

static void guests(void)
{
	enum { GUESTS = 10 };
	int from[GUESTS], to[GUESTS], status;
	pid_t child[GUESTS];
	for (int i = 0; i < GUESTS; i++)
		child[i] = start(guest, &from[i], &to[i]);
	ch = open_channel();
	must(bind_to(make_id(ch, RDMA_PS_TCP), PORT + 1) == 0); // the first process of the address
	for (int i = 0; i < GUESTS; i++) {
		say(to[i]);
		hear(from[i]);
		must(binds(RDMA_PS_TCP, PORT) == EADDRINUSE);
		if (i % 2 == 0) {
			must(kill(child[i], SIGKILL) == 0 && waitpid(child[i], &status, 0) == child[i]);
		} else {
			say(to[i]);
			hear(from[i]);
		}
		must(listens(RDMA_PS_TCP, PORT) == 0); // free at once
	}
	for (int i = 1; i < GUESTS; i += 2) {
		say(to[i]);
		ended_well(child[i]);
	}
}

// A client owns the port that it requests, like a server.
static void of_clients(void)
{
	ch = open_channel();
	struct rdma_cm_id *id = make_id(ch, RDMA_PS_TCP), *other = make_id(ch, RDMA_PS_TCP);
	struct sockaddr_in from = here(PORT + 1), to = here(PORT);
	must(rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, TIMEOUT_MS) == 0);
	must(pass(ch, RDMA_CM_EVENT_ADDR_RESOLVED) == id && rdma_get_src_port(id) == htons(PORT + 1) && rdma_get_dst_port(id) == htons(PORT));
	refused(rdma_resolve_addr(other, (struct sockaddr *)&from, (struct sockaddr *)&to, TIMEOUT_MS), EADDRINUSE);
	refused(bind_to(other, PORT + 1), EADDRINUSE);
	must(rdma_destroy_id(id) == 0 && bind_to(other, PORT + 1) == 0 && rdma_destroy_id(other) == 0);
}

enum { FIRST = 32768, LAST = 60999, ALL = LAST - FIRST + 1, SOME = 3000 };

static uint8_t taken[65536];

static struct rdma_cm_id *ephemeral(enum rdma_port_space ps)
{
	struct rdma_cm_id *id = make_id(ch, ps);
	if (bind_to(id, 0) != 0) {
		int why = errno;
		must(why == EADDRNOTAVAIL);
		must(rdma_destroy_id(id) == 0);
		return NULL;
	}
	int port = ntohs(rdma_get_src_port(id));
	must(port >= FIRST && port <= LAST && taken[port]++ == 0);
	return id;
}

// Thousands of listeners in two processes on one address: no two have the same port.
static void many_listen(int parent, int from)
{
	ch = open_channel();
	hear(from);
	for (int i = 0; i < SOME; i++) {
		struct rdma_cm_id *id = ephemeral(RDMA_PS_TCP);
		must(id != NULL && rdma_listen(id, 1) == 0);
	}
	must(write(parent, taken, sizeof taken) == sizeof taken);
	hear(from);
}

static void distinct(void)
{
	uint8_t theirs[sizeof taken];
	int from, to;
	pid_t child = start(many_listen, &from, &to);
	ch = open_channel();
	say(to);
	for (int i = 0; i < SOME; i++) {
		struct rdma_cm_id *id = ephemeral(RDMA_PS_TCP);
		must(id != NULL && rdma_listen(id, 1) == 0);
	}
	for (size_t n = 0; n < sizeof theirs;) {
		ssize_t got = read(from, theirs + n, sizeof theirs - n);
		must(got > 0);
		n += (size_t)got;
	}
	for (int i = 0; i < 65536; i++)
		must(taken[i] + theirs[i] <= 1);
	say(to);
	ended_well(child);
}

// All ports are taken: another ID gets no port, and later the port that was released.
static void exhausted(void)
{
	static struct rdma_cm_id *id[ALL];
	ch = open_channel();
	for (int i = 0; i < ALL; i++)
		must((id[i] = ephemeral(RDMA_PS_TCP)) != NULL);
	must(ephemeral(RDMA_PS_TCP) == NULL);
	struct rdma_cm_id *client = make_id(ch, RDMA_PS_TCP);
	struct sockaddr_in to = here(PORT);
	refused(rdma_resolve_addr(client, NULL, (struct sockaddr *)&to, TIMEOUT_MS), EADDRNOTAVAIL);
	memset(taken, 0, sizeof taken);
	must(ephemeral(RDMA_PS_UDP) != NULL); // this port space has its own ports
	int port = ntohs(rdma_get_src_port(id[ALL / 2]));
	must(rdma_destroy_id(id[ALL / 2]) == 0);
	memset(taken, 0, sizeof taken);
	must((id[ALL / 2] = ephemeral(RDMA_PS_TCP)) != NULL && rdma_get_src_port(id[ALL / 2]) == htons((uint16_t)port));
	must(rdma_destroy_id(client) == 0);
}

const struct scenario ports[] = {
	{"ports-ended", ended}, {"ports-killed", killed}, {"ports-second", second}, {"ports-guests", guests}, {"ports-clients", of_clients}, {"ports-distinct", distinct},
	{"ports-exhausted", exhausted}, {NULL, NULL},
};
