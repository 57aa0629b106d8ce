// Several threads at once: on one event channel, on the two ends of a connection, and
// each with connections of its own.
#include "cm.h"

#include <pthread.h>

enum { THREADS = 8, IDS = 400, ROUNDS = 25 };

// taker is one of the threads that read the events of a channel, until it reads one whose ID
// has no counter.
struct taker {
	struct rdma_event_channel *ch;
	int taken;
};

static void *take(void *arg)
{
	struct taker *t = arg;
	for (bool last = false; !last;) {
		struct rdma_cm_event *e;
		must(rdma_get_cm_event(t->ch, &e) == 0 && e->event == RDMA_CM_EVENT_ADDR_RESOLVED && e->status == 0);
		atomic_int *seen = e->id->context;
		last = seen == NULL;
		if (!last) {
			must(atomic_fetch_add(seen, 1) == 0); // no other thread had it
			t->taken++;
		}
		must(rdma_ack_cm_event(e) == 0);
	}
	return NULL;
}

static void one_channel(void)
{
	static struct rdma_cm_id *id[IDS + THREADS];
	static atomic_int seen[IDS];
	struct rdma_event_channel *ch = open_channel();
	pthread_t thread[THREADS];
	struct taker taker[THREADS];
	for (int i = 0; i < THREADS; i++) {
		taker[i] = (struct taker){.ch = ch};
		must(pthread_create(&thread[i], NULL, take, &taker[i]) == 0);
	}
	for (int i = 0; i < IDS + THREADS; i++) {
		must(rdma_create_id(ch, &id[i], i < IDS ? &seen[i] : NULL, RDMA_PS_TCP) == 0);
		begin_resolve(id[i], PORT);
	}
	int taken = 0;
	for (int i = 0; i < THREADS; i++) {
		must(pthread_join(thread[i], NULL) == 0);
		taken += taker[i].taken;
	}
	must(taken == IDS);
	quiet(ch);
	for (int i = 0; i < IDS + THREADS; i++)
		must(rdma_destroy_id(id[i]) == 0);
	rdma_destroy_event_channel(ch);
}

// The connecting threads have synchronous IDs.
static void *cycle(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		struct rdma_cm_id *id;
		must(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
		begin_resolve(id, PORT);
		must(rdma_resolve_route(id, TIMEOUT_MS) == 0);
		add_qp(id);
		ask(id);
		must(rdma_disconnect(id) == 0);
		destroy(id);
	}
	return NULL;
}

static void cycles(void)
{
	struct rdma_event_channel *ch = open_channel();
	struct rdma_cm_id *listener = listen_on(ch, RDMA_PS_TCP, PORT, THREADS);
	struct rdma_conn_param p = params(NULL, 0);
	pthread_t thread[THREADS];
	for (int i = 0; i < THREADS; i++)
		must(pthread_create(&thread[i], NULL, cycle, NULL) == 0);
	for (int asked = 0, established = 0, over = 0; over < THREADS * ROUNDS;) {
		struct rdma_cm_event *e;
		must(rdma_get_cm_event(ch, &e) == 0 && e->status == 0);
		struct rdma_cm_id *id = e->id;
		enum rdma_cm_event_type what = e->event;
		must(rdma_ack_cm_event(e) == 0);
		switch (what) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			asked++;
			add_qp(id);
			must(rdma_accept(id, &p) == 0);
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			must(++established <= asked);
			break;
		default:
			must(what == RDMA_CM_EVENT_DISCONNECTED && ++over <= established);
			must(rdma_disconnect(id) == 0);
			destroy(id);
		}
	}
	for (int i = 0; i < THREADS; i++)
		must(pthread_join(thread[i], NULL) == 0);
	must(rdma_destroy_id(listener) == 0);
	quiet(ch);
	rdma_destroy_event_channel(ch);
}

// Both ends disconnect at the same time: each gets one event.
static void *leave(void *arg)
{
	must(rdma_disconnect(arg) == 0);
	return NULL;
}

// told_once checks that no event follows DISCONNECTED, except TIMEWAIT_EXIT.
static void told_once(struct rdma_event_channel *ch)
{
	struct rdma_cm_event *e;
	must(fcntl(ch->fd, F_SETFL, O_NONBLOCK) == 0);
	while (rdma_get_cm_event(ch, &e) == 0)
		must(e->event == RDMA_CM_EVENT_TIMEWAIT_EXIT && rdma_ack_cm_event(e) == 0);
	refused(rdma_get_cm_event(ch, &e), EAGAIN);
	must(fcntl(ch->fd, F_SETFL, 0) == 0);
}

static void both_leave(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct link l;
		pthread_t one, two;
		link_up(&l, RDMA_PS_TCP);
		must(pthread_create(&one, NULL, leave, l.client) == 0 && pthread_create(&two, NULL, leave, l.server) == 0);
		must(pthread_join(one, NULL) == 0 && pthread_join(two, NULL) == 0);
		struct rdma_cm_id *first = pass(l.ch, RDMA_CM_EVENT_DISCONNECTED), *second = pass(l.ch, RDMA_CM_EVENT_DISCONNECTED);
		must(first != second);
		told_once(l.ch);
		link_down(&l);
	}
}

const struct scenario threads[] = {{"threads-channel", one_channel}, {"threads-cycles", cycles}, {"threads-both-leave", both_leave}, {NULL, NULL}};
