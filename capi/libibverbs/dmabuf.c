// Regions of DMA-bufs. The adapter is a part of the process, so it reaches the memory of a DMA-buf
// by a mapping, which not every exporter offers. On systems whose devices do not see the caches of
// the processor, the program calls DMA_BUF_IOCTL_SYNC as for its own accesses to a mapping.
#define _GNU_SOURCE
#include "softhca.h"

#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

// unmap_dmabuf removes the mapping of a region's DMA-buf, if it has one.
void unmap_dmabuf(struct mr *m)
{
	if (m->mapping == NULL)
		return;
	munmap(m->mapping, m->mapped);
	m->mapping = NULL;
}

// within_dmabuf reports whether a descriptor is of a DMA-buf that has a range: 0 or an error.
static int within_dmabuf(int fd, uint64_t offset, size_t length)
{
	enum { DMABUF_MAGIC = 0x444d4142 };
	struct statfs s;
	if (fstatfs(fd, &s) != 0)
		return errno;
	off_t size = s.f_type == DMABUF_MAGIC ? lseek(fd, 0, SEEK_END) : -1;
	if (size < 0 || length == 0 || offset > (uint64_t)size || length > (uint64_t)size - offset)
		return EINVAL;
	return 0;
}

EXPORT VERB(struct ibv_mr *, ibv_reg_dmabuf_mr, (struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
	int fd, int access), pd, offset, length, iova, fd, access)
{
	enum { REMOTE = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC };
	unsigned rights = (unsigned)access, skip = (unsigned)(offset & ((uint64_t)sysconf(_SC_PAGESIZE) - 1));
	int code = within_dmabuf(fd, offset, length);
	if (rights & ~((unsigned)IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_OPTIONAL_RANGE))
		code = EINVAL;
	if (code != 0)
		return fail(code);
	size_t size = skip + length;
	int prot = PROT_READ | (rights & IBV_ACCESS_LOCAL_WRITE ? PROT_WRITE : 0);
	void *at = mmap(NULL, size, prot, MAP_SHARED, fd, (off_t)(offset - skip));
	if (at == MAP_FAILED)
		return fail(errno == EACCES || errno == ENOMEM ? errno : EOPNOTSUPP); // the exporter offers no mapping
	struct softhca_mr a = {.addr = (uintptr_t)at + skip, .length = length, .iova = iova, .access = rights};
	struct mr *m = new_mr(pd, (void *)(uintptr_t)offset, length, &a);
	if (m == NULL) {
		code = errno;
		munmap(at, size);
		return fail(code);
	}
	m->mapping = at, m->mapped = size;
	return &m->ibv;
}
