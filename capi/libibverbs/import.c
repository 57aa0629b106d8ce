// Sharing the objects of another context of the same process. Another process cannot import
// them: an adapter belongs to one process.
#define _GNU_SOURCE
#include "softhca.h"

#include <sys/mman.h>
#include <sys/stat.h>

// The command descriptor of a context takes no commands: it is an anonymous file that
// identifies the context, also by a copy of the descriptor.
int command_fd(void) { return memfd_create("softhca", MFD_CLOEXEC); }

static bool same_file(const struct stat *a, int fd)
{
	struct stat b;
	return fstat(fd, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

// has_file reports whether a context of a device was opened with a file.
static bool has_file(struct device *d, const void *file)
{
	bool found = false;
	mutex_lock(DEVICE_LOCK, &d->mu);
	for (struct context *c = d->first; c != NULL && !found; c = c->next)
		found = same_file(file, c->v.context.cmd_fd);
	mutex_unlock(&d->mu);
	return found;
}

EXPORT VERB(struct ibv_context *, ibv_import_device, (int fd), fd)
{
	struct stat file;
	if (fstat(fd, &file) != 0)
		return fail(EINVAL);
	if (S_ISCHR(file.st_mode))
		return fail(ENODEV);
	struct node *n = node_where(has_file, &file);
	if (n == NULL)
		return fail(EOPNOTSUPP); // a descriptor of another process's context, or of any other file
	return open_context(n, fd);
}

// find returns an object of any context of a device by its kind and handle.
static struct object *find(struct ibv_context *in, const struct kind *kind, uint32_t handle)
{
	struct device *d = device_of(in);
	struct object *found = NULL;
	mutex_lock(DEVICE_LOCK, &d->mu);
	for (struct context *c = d->first; c != NULL && found == NULL; c = c->next) {
		mutex_lock(SOURCE_LOCK, &c->source.mu);
		for (struct object *o = c->objects; o != NULL && found == NULL; o = o->next)
			if (o->kind == kind && o->number == handle)
				found = o;
		mutex_unlock(&c->source.mu);
	}
	mutex_unlock(&d->mu);
	return found;
}

EXPORT VERB(struct ibv_pd *, ibv_import_pd, (struct ibv_context *c, uint32_t handle), c, handle)
{
	struct object *o = find(c, &pd_kind, handle);
	if (o == NULL)
		return fail(ENOENT);
	return pd_of(c, CONTAINER(o, struct pd, o), NULL);
}

EXPORT void ibv_unimport_pd(struct ibv_pd *p) { free_pd(&CONTAINER(p, struct pd, ibv)->o); }

// An imported region or device memory is a second name of the object. Only the first name can
// destroy the object; after that, a program may only unimport the other names.
EXPORT VERB(struct ibv_mr *, ibv_import_mr, (struct ibv_pd *pd, uint32_t handle), pd, handle)
{
	struct object *o = find(pd->context, &mr_kind, handle);
	struct mr *m = o != NULL ? calloc(1, sizeof *m) : NULL;
	if (m == NULL)
		return fail(o == NULL ? ENOENT : ENOMEM);
	const struct mr *first = CONTAINER(o, struct mr, o);
	*m = (struct mr){.ibv = first->ibv, .handle = first->handle, .access = first->access, .imported = true};
	m->ibv.context = pd->context, m->ibv.pd = pd;
	return &m->ibv;
}

EXPORT void ibv_unimport_mr(struct ibv_mr *ibv)
{
	struct mr *m = CONTAINER(ibv, struct mr, ibv);
	if (m->imported)
		free(m);
}

EXPORT VERB(struct ibv_dm *, ibv_import_dm, (struct ibv_context *c, uint32_t handle), c, handle)
{
	struct object *o = find(c, &dm_kind, handle);
	struct dm *m = o != NULL ? calloc(1, sizeof *m) : NULL;
	if (m == NULL)
		return fail(o == NULL ? ENOENT : ENOMEM);
	const struct dm *first = CONTAINER(o, struct dm, o);
	*m = (struct dm){.ibv = first->ibv, .handle = first->handle, .memory = first->memory, .length = first->length, .imported = true};
	m->ibv.context = c;
	return &m->ibv;
}

EXPORT void ibv_unimport_dm(struct ibv_dm *ibv)
{
	struct dm *m = CONTAINER(ibv, struct dm, ibv);
	if (m->imported)
		free(m);
}
