// Extended reliable connections: domains, their targets, and the numbers of their shared receive
// queues.
#define _GNU_SOURCE
#include "softhca.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

// domain is an XRC domain of the engine. All calls of open_xrcd with descriptors of the same file,
// in any context of a device, share a domain.
struct domain {
	struct domain *next;
	struct device *dev;
	handle_t handle;
	bool has_file;
	dev_t file_dev;
	ino_t file_ino;
	int opens;
};

// xrcd is a domain as one call of ibv_open_xrcd returned it.
struct xrcd {
	struct ibv_xrcd ibv;
	struct object o;
	struct domain *domain;
	_Atomic int users; // queue pairs and shared receive queues made with it
};

static pthread_mutex_t domains_mu = PTHREAD_MUTEX_INITIALIZER; // guards what follows
static struct domain *domains;

// The child of a fork has no domains.
void domains_in_child(void)
{
	pthread_mutex_init(&domains_mu, NULL);
	domains = NULL;
}

// find returns the domain of a file, NULL if this process has none. The lock is held.
static struct domain *find(const struct device *dev, const struct stat *file)
{
	struct domain *d = domains;
	while (d != NULL && !(d->dev == dev && d->has_file && d->file_dev == file->st_dev && d->file_ino == file->st_ino))
		d = d->next;
	return d;
}

// make makes a new domain, for the file of fd if there is one. The lock is held.
static int make(struct device *dev, int fd, const struct stat *file, int oflags, struct domain **out)
{
	char name[40] = "";
	struct domain *d = calloc(1, sizeof *d);
	if (d == NULL)
		return ENOMEM;
	d->dev = dev;
	if (file != NULL) {
		d->has_file = true, d->file_dev = file->st_dev, d->file_ino = file->st_ino;
		snprintf(name, sizeof name, "%llx/%llx", (unsigned long long)file->st_dev, (unsigned long long)file->st_ino);
	}
	int code = ENGINE(dev, open_xrcd, dev->handle, fd, name, &d->handle);
	if (code == EOPNOTSUPP && oflags & O_EXCL)
		code = EINVAL;
	if (code == 0 && file != NULL && !(oflags & O_CREAT)) {
		ENGINE(dev, close_xrcd, d->handle);
		code = EAGAIN;
	}
	if (code != 0) {
		free(d);
		return code;
	}
	d->next = domains;
	domains = *out = d;
	return 0;
}

// leave gives one opening of a domain back. The last one closes it.
static int leave(struct domain *d)
{
	int code = 0;
	mutex_lock(DOMAINS_LOCK, &domains_mu);
	if (d->opens == 1 && (code = ENGINE(d->dev, close_xrcd, d->handle)) == 0) {
		struct domain **at = &domains;
		while (*at != d)
			at = &(*at)->next;
		*at = d->next;
		free(d);
	} else if (code == 0) {
		d->opens--;
	}
	mutex_unlock(&domains_mu);
	return code;
}

static int free_xrcd(struct object *o)
{
	struct xrcd *x = CONTAINER(o, struct xrcd, o);
	if (outlived(o, x))
		return 0;
	if (atomic_load(&x->users) != 0)
		return EBUSY;
	int code = leave(x->domain);
	if (code == 0)
		release_object(x->ibv.context, o, x);
	return code;
}

const struct kind xrcd_kind = {"XRC domain", 1, free_xrcd};

VERB(struct ibv_xrcd *, open_xrcd, (struct ibv_context *c, struct ibv_xrcd_init_attr *a), c, a)
{
	enum { KNOWN = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS };
	struct stat file;
	if (a->comp_mask & ~(uint32_t)KNOWN)
		return fail(EOPNOTSUPP);
	if (a->comp_mask != KNOWN)
		return fail(EINVAL);
	if (a->fd != -1 && fstat(a->fd, &file) != 0)
		return fail(EBADF);
	struct xrcd *x = calloc(1, sizeof *x);
	if (x == NULL)
		return fail(ENOMEM);
	int code = 0;
	mutex_lock(DOMAINS_LOCK, &domains_mu);
	x->domain = a->fd != -1 ? find(device_of(c), &file) : NULL;
	if (x->domain == NULL)
		code = make(device_of(c), a->fd, a->fd != -1 ? &file : NULL, a->oflags, &x->domain);
	else if (a->oflags & O_EXCL)
		code = EINVAL;
	if (code == 0)
		x->domain->opens++;
	mutex_unlock(&domains_mu);
	if (code != 0)
		return abandon(x, code);
	x->ibv.context = c;
	add_object(c, &x->o, &xrcd_kind, (uint32_t)x->domain->handle);
	return &x->ibv;
}

VERB(int, close_xrcd, (struct ibv_xrcd *x), x)
{
	return free_xrcd(&CONTAINER(x, struct xrcd, ibv)->o);
}

handle_t use_xrcd(struct ibv_xrcd *ibv)
{
	struct xrcd *x = CONTAINER(ibv, struct xrcd, ibv);
	x->users++;
	return x->domain->handle;
}

void unuse_xrcd(struct ibv_xrcd *ibv)
{
	if (ibv != NULL)
		CONTAINER(ibv, struct xrcd, ibv)->users--;
}

VERB(int, get_srq_num, (struct ibv_srq *ibv, uint32_t *num), ibv, num)
{
	const struct srq *s = CONTAINER(ibv, struct srq, ibv);
	if (s->xrcd == NULL)
		return EINVAL;
	*num = s->num;
	return 0;
}
