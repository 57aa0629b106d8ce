// Adapters and their ports as netlink shows them: what the image of sysfs contains.

#define _GNU_SOURCE
#include "nldev.h"

#include "preload.h"

#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

// The abilities of an adapter, as ibv_query_device_ex of capi/libibverbs returns them.
enum {
	CAP_AUTO_PATH_MIG = 1 << 4,
	CAP_CURR_QP_STATE_MOD = 1 << 7,
	CAP_PORT_ACTIVE_EVENT = 1 << 10,
	CAP_SYS_IMAGE_GUID = 1 << 11,
	CAP_RC_RNR_NAK_GEN = 1 << 12,
	CAP_SRQ_RESIZE = 1 << 13,
	CAP_MEM_WINDOW = 1 << 17,
	CAP_XRC = 1 << 20,
	CAP_MEM_MGT_EXTENSIONS = 1 << 21,
	CAP_MEM_WINDOW_TYPE_2B = 1 << 24,
};

static const uint64_t abilities = CAP_AUTO_PATH_MIG | CAP_CURR_QP_STATE_MOD | CAP_PORT_ACTIVE_EVENT | CAP_SYS_IMAGE_GUID | CAP_RC_RNR_NAK_GEN |
				  CAP_SRQ_RESIZE | CAP_MEM_WINDOW | CAP_XRC | CAP_MEM_MGT_EXTENSIONS | CAP_MEM_WINDOW_TYPE_2B |
				  UINT64_C(7) << 38; // FLUSH of both types, ATOMIC WRITE

static const char *const class = "/sys/class/infiniband";

// text_at reads a file of the image, without the newline.
static bool text_at(const char *path, char *text, size_t size)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);

	if (fd >= 0)
		fd = present(fd, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	const long n = syscall(SYS_pread64, fd, text, size - 1, 0);
	syscall(SYS_close, fd);
	if (n < 0)
		return false;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return true;
}

// path_of writes the path in the image of a file of a device; false if it is too long.
static bool path_of(char path[IMAGE_PATH_MAX], const struct device *d, const char *name)
{
	char room[ROOT_MAX];

	if (strlen(name) >= PATH_MAX / 2)
		return false;
	strcpy(stpcpy(stpcpy(stpcpy(stpcpy(stpcpy(path, image_root(room)), class), "/"), d->name), "/"), name);
	return true;
}

bool image_text(const struct device *d, const char *name, char *text, size_t size)
{
	char path[IMAGE_PATH_MAX];

	return path_of(path, d, name) && text_at(path, text, size);
}

// hex reads a number of hexadecimal digits with colons in between, from the front.
static void hex(const char *text, uint8_t *to, size_t len)
{
	size_t digits = 0;

	memset(to, 0, len);
	for (; *text != '\0' && digits < 2 * len; text++) {
		const char c = *text;
		const int v = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
		if (v < 0)
			continue;
		to[digits / 2] = (uint8_t)(to[digits / 2] | v << (digits % 2 == 0 ? 4 : 0));
		digits++;
	}
}

bool find_device(uint32_t index, struct device *d)
{
	char path[IMAGE_PATH_MAX], room[ROOT_MAX], gid[64];

	if (index >= DEVICES_MAX)
		return false;
	d->index = index;
	char *end = decimal(stpcpy(stpcpy(path, image_root(room)), "/sys/class/infiniband_verbs/uverbs"), index);
	strcpy(end, "/ibdev");
	if (!text_at(path, d->name, sizeof(d->name)) || d->name[0] == '\0' || strchr(d->name, '/') != NULL)
		return false;
	if (!image_text(d, "ports/1/gids/0", gid, sizeof(gid)))
		return false;
	hex(gid, d->addr, sizeof(d->addr));
	return true;
}

// number_at reads the number at the beginning of a file.
static uint8_t number_at(const struct device *d, const char *name)
{
	char text[64];

	return image_text(d, name, text, sizeof(text)) ? (uint8_t)strtoul(text, NULL, 10) : 0;
}

// guid_at reads a GUID.
static uint64_t guid_at(const struct device *d, const char *name)
{
	char text[64];
	uint8_t bytes[8];
	uint64_t guid = 0;

	if (image_text(d, name, text, sizeof(text))) {
		hex(text, bytes, sizeof(bytes));
		for (size_t i = 0; i < sizeof(bytes); i++)
			guid = guid << 8 | bytes[i];
	}
	return guid;
}

void put_device(struct message *m, const struct device *d)
{
	char text[64];

	put_u32(m, ATTR_PORT_INDEX, 1); // number of ports
	put_u64(m, ATTR_CAP_FLAGS, abilities);
	if (image_text(d, "fw_ver", text, sizeof(text)) && text[0] != '\0')
		put_string(m, ATTR_FW_VERSION, text);
	put_u64(m, ATTR_NODE_GUID, guid_at(d, "node_guid"));
	put_u64(m, ATTR_SYS_IMAGE_GUID, guid_at(d, "sys_image_guid"));
	put_u8(m, ATTR_DEV_NODE_TYPE, number_at(d, "node_type"));
	put_u8(m, ATTR_DEV_DIM, 0);
	put_string(m, ATTR_DEV_PROTOCOL, "roce");
}

// index_of returns the index of a network interface; 0 if there is none.
static uint32_t index_of(const char *name)
{
	struct ifreq r = { 0 };
	const int fd = (int)syscall(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t index = 0;

	if (fd < 0)
		return 0;
	if (strlen(name) < sizeof(r.ifr_name))
		strcpy(r.ifr_name, name);
	if (syscall(SYS_ioctl, fd, SIOCGIFINDEX, &r) == 0)
		index = (uint32_t)r.ifr_ifindex;
	syscall(SYS_close, fd);
	return index;
}

void put_port(struct message *m, const struct device *d)
{
	char name[IF_NAMESIZE];

	put_u32(m, ATTR_PORT_INDEX, 1);
	put_u8(m, ATTR_PORT_STATE, number_at(d, "ports/1/state"));
	put_u8(m, ATTR_PORT_PHYS_STATE, number_at(d, "ports/1/phys_state"));
	if (!image_text(d, "ports/1/gid_attrs/ndevs/0", name, sizeof(name)))
		return;
	const uint32_t index = index_of(name);
	if (index == 0)
		return;
	put_u32(m, ATTR_NDEV_INDEX, index);
	put_string(m, ATTR_NDEV_NAME, name);
}

// A directory entry as the kernel writes it.
struct entry {
	uint64_t ino, off;
	uint16_t size;
	uint8_t type;
	char name[];
};

// insert adds a name to n sorted names.
static int insert(char (*names)[NAME_MAX_RDMA], int n, const char *name)
{
	int i = n;

	if (n == COUNTERS_MAX || strlen(name) >= NAME_MAX_RDMA)
		return n;
	for (; i > 0 && strcmp(names[i - 1], name) > 0; i--)
		memcpy(names[i], names[i - 1], NAME_MAX_RDMA);
	strcpy(names[i], name);
	return n + 1;
}

// counter_names lists the adapter's counters, sorted.
static int counter_names(struct work *w, const struct device *d)
{
	_Alignas(struct entry) char b[2048];
	long got;
	int n = 0;

	if (!path_of(w->path, d, "ports/1/hw_counters"))
		return 0;
	const int dir = (int)syscall(SYS_openat, AT_FDCWD, w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (dir < 0)
		return 0;
	while ((got = syscall(SYS_getdents64, dir, b, sizeof(b))) > 0)
		for (long at = 0; at < got; at += ((struct entry *)(b + at))->size)
			if (((struct entry *)(b + at))->name[0] != '.')
				n = insert(w->names, n, ((struct entry *)(b + at))->name);
	syscall(SYS_close, dir);
	return n;
}

void put_port_counters(struct work *w, struct message *m, const struct device *d, bool values)
{
	const int n = counter_names(w, d);
	char name[2 * NAME_MAX_RDMA], text[64];

	put_u32(m, ATTR_PORT_INDEX, 1);
	const size_t all = open_nest(m, values ? ATTR_STAT_HWCOUNTERS : ATTR_STAT_HWCOUNTERS | NLA_F_NESTED);
	for (int i = 0; i < n; i++) {
		strcpy(stpcpy(name, "ports/1/hw_counters/"), w->names[i]);
		if (values && !image_text(d, name, text, sizeof(text)))
			continue;
		const size_t one = open_nest(m, values ? ATTR_STAT_HWCOUNTER_ENTRY : ATTR_STAT_HWCOUNTER_ENTRY | NLA_F_NESTED);
		put_string(m, ATTR_STAT_HWCOUNTER_ENTRY_NAME, w->names[i]);
		if (values)
			put_u64(m, ATTR_STAT_HWCOUNTER_ENTRY_VALUE, strtoull(text, NULL, 10));
		else
			put_u32(m, ATTR_STAT_HWCOUNTER_INDEX, (uint32_t)i);
		close_nest(m, one);
	}
	close_nest(m, all);
}
