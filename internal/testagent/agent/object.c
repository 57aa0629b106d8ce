// The objects of the controller.
#define _GNU_SOURCE
#include "agent.h"

const char *const KIND_NAMES[] = { "nothing", "pd", "mr", "cq", "srq", "qp", "ah", "mw" };

struct object objects[OBJECTS_MAX];
static int object_next = 1;

static void next_handle(void)
{
	object_next = object_next + 1 < OBJECTS_MAX ? object_next + 1 : 1;
}

// Finds a handle for the object that the verb that follows creates; false if there is none, or
// the request has failed already. A handle is reused only after all others, so that a stale one
// names no object.
bool may_create(void)
{
	for (int i = 1; i < OBJECTS_MAX && objects[object_next].kind != FREE; i++)
		next_handle();
	if (objects[object_next].kind != FREE)
		fail(ENOSPC, "more than %d objects", OBJECTS_MAX - 1);
	return ready();
}

// Adds the object that a verb has created, and returns its handle; 0 if the verb failed.
int created(enum kind kind, void *any, const char *verb)
{
	int h = object_next;

	if (!done(any ? 0 : -1, verb))
		return 0;
	objects[h] = (struct object){ .kind = kind, .any = any };
	next_handle();
	put("id=%d", h);
	return h;
}

struct object *object(enum kind kind, const char *key, uint64_t handle)
{
	if (handle > 0 && handle < OBJECTS_MAX && objects[handle].kind == kind)
		return &objects[handle];
	fail(ENOENT, "%s=%" PRIu64 " is no %s", key, handle, KIND_NAMES[kind]);
	return NULL;
}

struct object *object_in(int from, int to, enum kind kind, const char *key)
{
	const char *s = find(from, to, key);
	uint64_t h;

	if (!s) {
		fail(EINVAL, "%s= is missing", key);
		return NULL;
	}
	h = to_number(key, s, UINT32_MAX);
	return failed ? NULL : object(kind, key, h);
}

struct object *arg(enum kind kind, const char *key)
{
	return object_in(0, rq.n, kind, key);
}

int handle_of(enum kind kind, const void *any)
{
	for (int i = 1; i < OBJECTS_MAX; i++)
		if (objects[i].kind == kind && objects[i].any == any)
			return i;
	return 0;
}

static int destroy(int h)
{
	struct object *o = &objects[h];
	int rc = 0;

	errno = 0;
	switch (o->kind) {
	case PD:
		rc = ibv_dealloc_pd(o->pd);
		break;
	case MR:
		rc = ibv_dereg_mr(o->mr);
		if (!rc)
			unmap(o);
		break;
	case CQ:
		rc = ibv_destroy_cq(o->cq);
		if (!rc && o->channel)
			ibv_destroy_comp_channel(o->channel);
		break;
	case SRQ:
		rc = ibv_destroy_srq(o->srq);
		break;
	case QP:
		rc = ibv_destroy_qp(o->qp);
		if (!rc)
			forget_groups(h);
		break;
	case AH:
		rc = ibv_destroy_ah(o->ah);
		break;
	case MW:
		rc = ibv_dealloc_mw(o->mw);
		break;
	default:
		return 0;
	}
	if (rc)
		return error_of(rc);
	o->kind = FREE;
	return 0;
}

// Destroys users before the objects that they use, and windows first: rxe takes a minute to destroy a
// queue pair on which a window is bound.
void destroy_all(void)
{
	static const enum kind order[] = { MW, QP, AH, SRQ, MR, CQ, PD };

	take_events();
	leave_groups();
	for (size_t k = 0; k < sizeof order / sizeof *order; k++)
		for (int h = 1; h < OBJECTS_MAX; h++)
			if (objects[h].kind == order[k]) {
				int rc = destroy(h);

				if (rc)
					fprintf(stderr, "agent: %s %d is not destroyed: %s\n", KIND_NAMES[order[k]], h, strerror(rc));
			}
	take_events();
	forget_events();
}

void do_destroy(void)
{
	uint64_t h = number("id", 0, OBJECTS_MAX - 1);
	int rc;

	if (failed)
		return;
	if (objects[h].kind == FREE) {
		fail(ENOENT, "id=%" PRIu64 " is nothing", h);
		return;
	}
	take_events();
	if ((rc = destroy(h)))
		fail(rc, "destroy the %s", KIND_NAMES[objects[h].kind]);
}
