// What the checker says at the end about events that the program has not read.
#include "cm.h"

// request has a request of a client wait at a listener, and reads it or not.
static void request(bool reads)
{
	struct rdma_event_channel *ch = open_channel(), *own = open_channel(); // FOUND
	listen_on(ch, RDMA_PS_TCP, PORT, 1);
	ask(ready(own, RDMA_PS_TCP, PORT));
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	must(poll(&p, 1, -1) == 1);
	if (reads)
		pass(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
}

static void left(void) { request(false); }
static void taken(void) { request(true); }

const struct scenario unreads[] = {{"unread-request", left}, {"unread-nothing", taken}, {NULL, NULL}};
