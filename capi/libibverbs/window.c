// Memory windows: allocating, and binding those of type 1. Requests bind those of type 2 (post.c).
#define _GNU_SOURCE
#include "check.h"

#include <sys/random.h>

struct mw {
	struct ibv_mw ibv;
	struct object o;
	handle_t handle;
};

static int free_mw(struct object *o)
{
	struct mw *m = CONTAINER(o, struct mw, o);
	if (outlived(o, m))
		return 0;
	int code = ENGINE(device_of(m->ibv.context), dealloc_mw, m->handle);
	if (code != 0)
		return code;
	release_object(m->ibv.context, o, m);
	return 0;
}

// Closing a context destroys windows before regions.
const struct kind mw_kind = {"memory window", 4, free_mw};

VERB(struct ibv_mw *, alloc_mw, (struct ibv_pd *pd, enum ibv_mw_type type), pd, type)
{
	if (UNLIKELY(checking) && check_ended(&CONTAINER(pd, struct pd, ibv)->o))
		return fail(EINVAL);
	struct mw *m = calloc(1, sizeof *m);
	if (m == NULL)
		return fail(ENOMEM);
	int code = ENGINE(device_of(pd->context), alloc_mw, CONTAINER(pd, struct pd, ibv)->handle, type, &m->handle, &m->ibv.rkey);
	if (code != 0)
		return abandon(m, code);
	m->ibv.context = pd->context, m->ibv.pd = pd, m->ibv.type = type, m->ibv.handle = visible(device_of(pd->context), m->handle);
	add_object(pd->context, &m->o, &mw_kind, m->ibv.handle);
	return &m->ibv;
}

VERB(int, dealloc_mw, (struct ibv_mw *m), m)
{
	return free_mw(&CONTAINER(m, struct mw, ibv)->o);
}

// another_key returns a window's key with another tag, which a peer cannot guess.
static uint32_t another_key(uint32_t key)
{
	uint8_t tag = (uint8_t)key;
	while (tag == (uint8_t)key)
		if (getrandom(&tag, 1, 0) != 1)
			tag++;
	return (key & ~0xffu) | tag;
}

// The header has checked the type. Like rxe, bind_mw gives the window its new key at once; a
// program whose bind fails binds it again.
VERB(int, bind_mw, (struct ibv_qp *q, struct ibv_mw *m, struct ibv_mw_bind *b), q, m, b)
{
	struct ibv_mw by_request = *m;
	struct ibv_send_wr *bad, wr = {
		.wr_id = b->wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = b->send_flags,
		.bind_mw = {.mw = &by_request, .rkey = another_key(m->rkey), .bind_info = b->bind_info},
	};
	if (b->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED)
		return EINVAL;
	by_request.type = IBV_MW_TYPE_2; // post_send binds no others
	int code = post_send(q, &wr, &bad);
	if (code == 0)
		m->rkey = wr.bind_mw.rkey;
	return code;
}
