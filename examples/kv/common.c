#include "common.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

bool failed(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	return false;
}

bool check(int error, const char *what)
{
	errno = error;
	return error == 0 || failed(what);
}

bool worked(int result, const char *what)
{
	return result == 0 || failed(what);
}

int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int wait_for(int fd, int64_t deadline)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	for (;;) {
		int64_t left = deadline - now();
		int n = poll(&p, 1, left > 0 ? (int)left : 0);
		if (n >= 0 || errno != EINTR)
			return n;
	}
}

bool next_notice(struct rdma_event_channel *channel, struct notice *n)
{
	struct rdma_cm_event *event;
	if (!worked(rdma_get_cm_event(channel, &event), "rdma_get_cm_event"))
		return false;
	*n = (struct notice){.type = event->event, .status = event->status, .id = event->id};
	return worked(rdma_ack_cm_event(event), "rdma_ack_cm_event");
}

bool deregister(struct ibv_mr **mr)
{
	if (*mr != NULL && !check(ibv_dereg_mr(*mr), "ibv_dereg_mr"))
		return false;
	*mr = NULL;
	return true;
}

bool destroy_cq(struct ibv_cq **cq)
{
	if (*cq != NULL && !check(ibv_destroy_cq(*cq), "ibv_destroy_cq"))
		return false;
	*cq = NULL;
	return true;
}

bool dealloc_pd(struct ibv_pd **pd)
{
	if (*pd != NULL && !check(ibv_dealloc_pd(*pd), "ibv_dealloc_pd"))
		return false;
	*pd = NULL;
	return true;
}

bool destroy_id(struct rdma_cm_id **id)
{
	if (*id != NULL && !worked(rdma_destroy_id(*id), "rdma_destroy_id"))
		return false;
	*id = NULL;
	return true;
}
