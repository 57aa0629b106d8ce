// Device memory: memory that the engine allocates and that a program reaches by copies and by
// work requests.
#define _GNU_SOURCE
#include "softhca.h"

// copyable reports whether a program may copy from or to a range of device memory: 0 or an error.
static int copyable(const struct dm *m, uint64_t offset, size_t length)
{
	enum { UNIT = 4 };
	if (offset > m->length || length > m->length - offset)
		return EFAULT;
	return offset % UNIT != 0 || length % UNIT != 0 ? EINVAL : 0;
}

static int memcpy_to_dm(struct ibv_dm *ibv, uint64_t offset, const void *from, size_t length)
{
	struct dm *m = CONTAINER(ibv, struct dm, ibv);
	int code = copyable(m, offset, length);
	if (code == 0)
		memcpy(m->memory + offset, from, length);
	return code;
}

static int memcpy_from_dm(void *to, struct ibv_dm *ibv, uint64_t offset, size_t length)
{
	struct dm *m = CONTAINER(ibv, struct dm, ibv);
	int code = copyable(m, offset, length);
	if (code == 0)
		memcpy(to, m->memory + offset, length);
	return code;
}

static int destroy_dm(struct object *o)
{
	struct dm *m = CONTAINER(o, struct dm, o);
	if (m->imported)
		return EINVAL;
	if (outlived(o, m))
		return 0;
	int code = ENGINE(device_of(m->ibv.context), free_dm, m->handle);
	if (code != 0)
		return code;
	release_object(m->ibv.context, o, m);
	return 0;
}

const struct kind dm_kind = {"device memory", 1, destroy_dm};

VERB(struct ibv_dm *, alloc_dm, (struct ibv_context *c, struct ibv_alloc_dm_attr *a), c, a)
{
	if (a->comp_mask != 0)
		return fail(EINVAL);
	struct dm *m = calloc(1, sizeof *m);
	if (m == NULL)
		return fail(ENOMEM);
	struct softhca_dm d = {.length = a->length, .log_align = a->log_align_req};
	int code = ENGINE(device_of(c), alloc_dm, device_of(c)->handle, &d);
	if (code != 0)
		return abandon(m, code);
	m->handle = d.handle, m->memory = d.memory, m->length = d.length;
	m->ibv = (struct ibv_dm){
		.context = c, .memcpy_to_dm = memcpy_to_dm, .memcpy_from_dm = memcpy_from_dm, .handle = visible(device_of(c), d.handle),
	};
	add_object(c, &m->o, &dm_kind, m->ibv.handle);
	return &m->ibv;
}

VERB(int, free_dm, (struct ibv_dm *ibv), ibv)
{
	return destroy_dm(&CONTAINER(ibv, struct dm, ibv)->o);
}

// Addresses of a region of device memory count from 0: it has none in the program.
VERB(struct ibv_mr *, reg_dm_mr, (struct ibv_pd *pd, struct ibv_dm *ibv, uint64_t offset, size_t length, unsigned access),
	pd, ibv, offset, length, access)
{
	if (!(access & IBV_ACCESS_ZERO_BASED))
		return fail(EINVAL);
	struct softhca_mr a = {
		.dm = CONTAINER(ibv, struct dm, ibv)->handle, .addr = offset, .length = length, .access = access, .memory = SOFTHCA_DM,
	};
	struct mr *m = new_mr(pd, NULL, length, &a);
	return m != NULL ? &m->ibv : NULL;
}
