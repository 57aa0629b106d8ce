// Netlink of RDMA devices, as rdma_netlink(7) and iproute2's rdma use it: what the sources share.
// The numbers are Linux's ABI. They are here because headers of older systems lack some.

#ifndef SOFTHCA_NLDEV_H
#define SOFTHCA_NLDEV_H

#include "restrack.h"

#include <limits.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef NETLINK_RDMA
#define NETLINK_RDMA 20
#endif

// The client number of nldev in the type of a message, and the number's shift.
enum { NLDEV = 5, CLIENT_SHIFT = 10, OP_MASK = (1 << CLIENT_SHIFT) - 1 };

enum nldev_command {
	CMD_GET = 1,
	CMD_SET = 2,
	CMD_NEWLINK = 3,
	CMD_DELLINK = 4,
	CMD_PORT_GET = 5,
	CMD_SYS_GET = 6,
	CMD_SYS_SET = 7,
	CMD_RES_GET = 9,
	CMD_RES_QP_GET = 10,
	CMD_RES_CM_ID_GET = 11,
	CMD_RES_CQ_GET = 12,
	CMD_RES_MR_GET = 13,
	CMD_RES_PD_GET = 14,
	CMD_GET_CHARDEV = 15,
	CMD_STAT_SET = 16,
	CMD_STAT_GET = 17,
	CMD_STAT_DEL = 18,
	CMD_RES_QP_GET_RAW = 19,
	CMD_RES_CQ_GET_RAW = 20,
	CMD_RES_MR_GET_RAW = 21,
	CMD_RES_CTX_GET = 22,
	CMD_RES_SRQ_GET = 23,
	CMD_STAT_GET_STATUS = 24,
	CMD_RES_SRQ_GET_RAW = 25,
	CMD_NEWDEV = 26,
	CMD_DELDEV = 27,
	CMD_COUNT
};

enum nldev_attribute {
	ATTR_DEV_INDEX = 1,
	ATTR_DEV_NAME = 2,
	ATTR_PORT_INDEX = 3,
	ATTR_CAP_FLAGS = 4,
	ATTR_FW_VERSION = 5,
	ATTR_NODE_GUID = 6,
	ATTR_SYS_IMAGE_GUID = 7,
	ATTR_PORT_STATE = 12,
	ATTR_PORT_PHYS_STATE = 13,
	ATTR_DEV_NODE_TYPE = 14,
	ATTR_RES_SUMMARY = 15,
	ATTR_RES_SUMMARY_ENTRY = 16,
	ATTR_RES_SUMMARY_ENTRY_NAME = 17,
	ATTR_RES_SUMMARY_ENTRY_CURR = 18,
	ATTR_RES_QP = 19,
	ATTR_RES_QP_ENTRY = 20,
	ATTR_RES_LQPN = 21,
	ATTR_RES_RQPN = 22,
	ATTR_RES_RQ_PSN = 23,
	ATTR_RES_SQ_PSN = 24,
	ATTR_RES_PATH_MIG_STATE = 25,
	ATTR_RES_TYPE = 26,
	ATTR_RES_STATE = 27,
	ATTR_RES_PID = 28,
	ATTR_RES_CM_ID = 30,
	ATTR_RES_PS = 32,
	ATTR_RES_SRC_ADDR = 33,
	ATTR_RES_DST_ADDR = 34,
	ATTR_RES_CQ = 35,
	ATTR_RES_CQE = 37,
	ATTR_RES_USECNT = 38,
	ATTR_RES_MR = 40,
	ATTR_RES_MRLEN = 45,
	ATTR_RES_PD = 46,
	ATTR_NDEV_INDEX = 50,
	ATTR_NDEV_NAME = 51,
	ATTR_RES_PDN = 60,
	ATTR_RES_CQN = 61,
	ATTR_RES_MRN = 62,
	ATTR_RES_CM_IDN = 63,
	ATTR_RES_CTXN = 64,
	ATTR_SYS_NETNS_MODE = 66,
	ATTR_DEV_PROTOCOL = 67,
	ATTR_CHARDEV_TYPE = 69,
	ATTR_CHARDEV_NAME = 70,
	ATTR_CHARDEV_ABI = 71,
	ATTR_CHARDEV = 72,
	ATTR_UVERBS_DRIVER_ID = 73,
	ATTR_STAT_MODE = 74,
	ATTR_STAT_RES = 75,
	ATTR_STAT_COUNTER = 77,
	ATTR_STAT_COUNTER_ENTRY = 78,
	ATTR_STAT_COUNTER_ID = 79,
	ATTR_STAT_HWCOUNTERS = 80,
	ATTR_STAT_HWCOUNTER_ENTRY = 81,
	ATTR_STAT_HWCOUNTER_ENTRY_NAME = 82,
	ATTR_STAT_HWCOUNTER_ENTRY_VALUE = 83,
	ATTR_DEV_DIM = 84,
	ATTR_RES_CTX = 86,
	ATTR_RES_SRQ = 88,
	ATTR_RES_SRQN = 90,
	ATTR_MIN_RANGE = 91,
	ATTR_MAX_RANGE = 92,
	ATTR_SYS_COPY_ON_FORK = 93,
	ATTR_STAT_HWCOUNTER_INDEX = 94,
	ATTR_SYS_PRIVILEGED_QKEY = 96,
	ATTR_SYS_MONITOR = 103,
	ATTR_COUNT = 128 // higher numbers are ignored
};

// Bounds. A part fits into the buffer of a page that libmnl's programs have, as the kernel's does.
enum {
	REQUEST_MAX = 4096,
	PART_MAX = 3776,
	DEVICES_MAX = 16, // of a program, as in libibverbs
	NAME_MAX_RDMA = 64,
	TABLE_NAME_MAX = 64,
	TABLES_MAX = 4096, // entries of a directory that are looked at
	COUNTERS_MAX = 128,
	RANGES_MAX = 64, // ranges of QPNs of a shared receive queue
};

// message is a part of an answer. If something does not fit, full is set.
struct message {
	unsigned char *bytes;
	size_t len;
	bool full;
};

void put(struct message *m, int type, const void *value, size_t len);
void put_u8(struct message *m, int type, uint8_t value);
void put_u32(struct message *m, int type, uint32_t value);
void put_u64(struct message *m, int type, uint64_t value);
void put_string(struct message *m, int type, const char *value);

// open_nest begins an attribute that contains attributes, and close_nest ends it. A message is
// one too, for the kernel and here: begin and end.
size_t open_nest(struct message *m, int type);
void close_nest(struct message *m, size_t at);

struct work;

// device is an adapter of the image.
struct device {
	uint32_t index;
	char name[NAME_MAX_RDMA];
	uint8_t addr[16]; // its first GID
};

bool find_device(uint32_t index, struct device *d);

// image_text reads a file of a device, below its directory in sysfs, without the newline; false
// if there is none.
bool image_text(const struct device *d, const char *name, char *text, size_t size);

void put_device(struct message *m, const struct device *d);
void put_port(struct message *m, const struct device *d);
void put_port_counters(struct work *w, struct message *m, const struct device *d, bool values);

// cursor is a place among the rows of all tables of a device. It is in the queue of a socket
// while a dump is not finished.
struct cursor {
	uint32_t extent;
	uint32_t row;
	uint32_t inside;           // the table has more rows
	char name[TABLE_NAME_MAX]; // of the table; "" before the first
};

// dump is a dump that is not finished.
struct dump {
	uint32_t port_id, seq;
	uint32_t device, port, res;
	uint32_t op;
	struct cursor at;
};

// request is a message of the program.
struct request {
	const struct nlmsghdr *header;
	uint32_t port_id;
	uint32_t values[ATTR_COUNT]; // of the attributes with 32 bits
	bool has[ATTR_COUNT];
	char chardev[NAME_MAX_RDMA];
};

// table is an open table of a running process.
struct table {
	int fd;
	struct table_header header;
};

// walk is what each_row visits: the rows of a kind, or of TABLE_ANY each table, with a row that
// is NULL. f gets a copy of a row; it returns false to stop before the row.
enum { TABLE_ANY = 0 };

struct walk {
	int kind;
	bool (*f)(const struct table *t, const void *row, void *to);
	void *to;
};

// scan is the memory for one walk.
struct scan {
	_Alignas(64) unsigned char extent[TABLE_EXTENT];
	unsigned char again[TABLE_EXTENT];
	uint64_t seqs[TABLE_EXTENT / sizeof(struct table_pd)]; // the smallest rows
};

// work is the memory for a call: the stack of the program may be small.
struct work {
	unsigned char request[REQUEST_MAX];
	_Alignas(64) unsigned char part[PART_MAX];
	struct request r;
	struct table table;
	struct scan outer, inner;
	char names[COUNTERS_MAX][NAME_MAX_RDMA];
	char path[2 * PATH_MAX];
};

// borrow returns memory for a call, to be unmapped; NULL with errno if there is none.
struct work *borrow(void);

// each_row walks the tables of a device from a cursor on, which it moves; true if it reached the
// end.
bool each_row(struct work *w, const struct device *d, const struct walk *k, struct cursor *at);

// each_row_of walks one table, also while each_row does.
void each_row_of(struct work *w, const struct table *t, const struct walk *k);

// is_listed reports whether a command lists objects.
bool is_listed(const struct dump *what);

// put_objects writes a part of a list of objects and returns true if it is the last one.
bool put_objects(struct work *w, struct message *m, const struct device *d, struct dump *from);

// put_object writes the object whose number the request has: EINVAL if it has none, ENOENT if
// there is no such object.
int put_object(struct work *w, struct message *m, const struct device *d, const struct dump *which);

void put_summary(struct work *w, struct message *m, const struct device *d);

// answer answers the messages in w->request; false if the socket has no room for an answer.
bool answer(struct work *w, int fd, size_t len);

// go_on sends the next part of a dump.
enum progress { DUMP_MORE, DUMP_DONE, DUMP_FULL };
enum progress go_on(struct work *w, int fd, struct dump *d);

// send_part puts a part of an answer into the queue of a socket, and keep_dump a dump that is not
// finished; false if there is no room.
bool send_part(int fd, const void *part, size_t len);
bool keep_dump(int fd, const struct dump *d);

#endif
