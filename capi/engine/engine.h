// The calls from libibverbs into the engine. The engine is a Go program in a shared object that
// exports one table of calls. Any thread may make any call, with all signals blocked but those
// of faults. Calls return 0 or a positive errno. Handles belong to the engine; 0 is no handle.
//
// States, masks, access rights and events have the values of the verbs.
#ifndef SOFTHCA_ENGINE_H
#define SOFTHCA_ENGINE_H

#include <stddef.h>
#include <stdint.h>

// SOFTHCA_ENGINE_ABI changes whenever this file does: the library rejects an engine of another
// build.
#define SOFTHCA_ENGINE_ABI 18

// SOFTHCA_VENDOR_ERR_FAULT is the vendor_err of a completion that a fault on demand has made fail.
#define SOFTHCA_VENDOR_ERR_FAULT 0xfa17

// SOFTHCA_MARK is the signal (F_SETSIG) that marks the descriptors of the adapter: the highest
// signal number. The engine marks its own descriptors with package fdmark.
enum { SOFTHCA_MARK = 64 };

typedef uint64_t handle_t;

// ring is a queue in shared memory: internal/ring/cpeer/ring.h.
struct ring;

enum { SOFTHCA_GIDS = 256, SOFTHCA_PKEYS = 16 };

// softhca_refusal is an access to memory of the program that the adapter refuses a peer.
struct softhca_refusal {
	uint32_t qpn, peer; // of the queue pair, and of that of the peer, 0 if it is not known
	uint32_t key;       // of the memory; 0: none
	char remote[48];    // the peer's address
	char why[256];
};

// softhca_config says which adapter to open. An empty address stands for the first of
// 127.0.0.0/8 that no other adapter has. An empty string means that the setting is absent.
struct softhca_config {
	char *addr, *capture, *log_level, *log_format;
	int fatal_events; // raise QP_FATAL also for errors that a completion or another event reports
	// Go programs read these from their environment. Here the library reads them, because the
	// engine's runtime would read the memory that the kernel filled when the program started.
	char *config_dir; // of the user: $XDG_CONFIG_HOME or $HOME/.config
	char *guid, *faults, *faults_seed, *wire, *nasty, *sites, *retry_speedup;
	char *sysfs; // root of the adapter's sysfs image, whose counters the engine updates
	int adapter; // its number there, from 0
	char *name;  // of the adapter
	// The library's functions that the engine calls, from its own threads or from a thread
	// that calls the engine. They do not call the engine and do not block.
	void (*completed)(void *cq); // the queue was armed and has a completion
	void (*event)(void *device, void *object, uint32_t type); // object is 0 for events of the port or of the device
	void *device;
	void (*refused)(void *device, const struct softhca_refusal *r); // the adapter refuses an access of a peer; NULL: it does not call
	// The payload of a request was another when the adapter repeated a packet; index is that of the request in the
	// send queue. NULL: the adapter does not compare.
	void (*changed)(void *device, uint32_t qpn, uint32_t index);
	struct softhca_writes *writes; // records the adapter's writes to memory of the program; NULL: it does not
};

// softhca_writes has the newest writes of adapters to memory of a program. Write n of them, from 0, is in
// last[n % SOFTHCA_WRITES]; its turn is n + 1 when it is complete. count is the number of writes begun.
#define SOFTHCA_WRITES 16384
struct softhca_writes {
	_Atomic uint64_t count;
	struct softhca_write {
		_Atomic uint64_t turn;
		uint64_t addr, length;
	} last[SOFTHCA_WRITES];
};

struct softhca_adapter {
	uint64_t node_guid, max_msg_size, max_dm_size;
	uint64_t clock; // CLOCK_MONOTONIC, in ns, when the adapter's clock was 0
	uint32_t max_qp, max_qp_wr, max_sge, max_inline, max_cq, max_cqe, max_srq, max_srq_wr;
	uint32_t max_mr, max_mw, max_pd, max_ah, max_rd_atomic;
	uint32_t max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach;
	uint32_t port_state, active_mtu, gids, pkeys, if_index;
	uint16_t pkey[SOFTHCA_PKEYS];
	uint8_t gid[SOFTHCA_GIDS][16];
	char interface[16];
	// The seed of the behaviour of package nasty that the library itself has; 0: off.
	uint64_t nasty_numbers; // the handles that programs see
};

// softhca_memory is what a region is of: memory of the program, all of its address space, none at
// all, or device memory.
enum softhca_memory { SOFTHCA_PROGRAM, SOFTHCA_IMPLICIT, SOFTHCA_NULL, SOFTHCA_DM };

struct softhca_mr {
	handle_t handle;
	handle_t dm; // with SOFTHCA_DM
	uint64_t addr, length, iova; // with SOFTHCA_DM, addr is an offset
	uint32_t access, lkey, rkey; // access: the rights, also if they do not change
	int memory; // enum softhca_memory
	// The call that registers it: a file of the program, and the address in the file. They are for
	// explanations; file may be NULL.
	const char *file;
	uint64_t call;
};

// softhca_dm is device memory. The library copies from and to it directly.
struct softhca_dm {
	handle_t handle;
	uint64_t length;
	uint32_t log_align;
	uint8_t *memory;
};

struct softhca_sge {
	uint64_t addr;
	uint32_t length, lkey;
};

// softhca_room is memory that the program provides for a queue until the queue is destroyed. addr
// is NULL if the engine allocates the memory.
struct softhca_room {
	void *addr; // a multiple of 8
	uint64_t size;
};

struct softhca_cq {
	handle_t handle;
	struct ring *ring;
	struct softhca_room room; // of the entries, until the queue is resized
	void *object;
	uint32_t cqe;
	int timed; // its entries are of ring_timed_cqe
};

struct softhca_srq {
	handle_t handle;
	struct ring *ring;
	struct softhca_room room;
	void *object;
	uint32_t max_wr, max_sge, limit;
	handle_t xrcd, cq; // of XRC; then it has a number
	uint32_t srqn;
	int watched; // call softhca_calls.check before each post
};

struct softhca_cap {
	uint32_t send_wr, recv_wr, send_sge, recv_sge, inline_data;
};

struct softhca_qp {
	handle_t handle, send_cq, recv_cq, srq;
	struct ring *send, *recv;
	struct softhca_room send_room, recv_room;
	void *object;
	struct softhca_cap cap;
	uint32_t type, qpn, create_flags;
	int sig_all;
	int watched; // call softhca_calls.check before each post
};

struct softhca_av {
	uint8_t dgid[16];
	uint32_t flow_label;
	uint8_t sgid_index, hop_limit, traffic_class, sl, static_rate, port;
};

struct softhca_qp_attr {
	uint32_t state, cur_state, path_mtu, mig_state, qkey, rq_psn, sq_psn, dest_qpn, access, rate_limit;
	struct softhca_cap cap;
	struct softhca_av av, alt_av;
	uint16_t pkey_index, alt_pkey_index;
	uint8_t sqd_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port;
	uint8_t timeout, retry_cnt, rnr_retry, alt_port, alt_timeout;
};

enum softhca_post { SOFTHCA_SEND, SOFTHCA_RECV };

// softhca_posted counts what was written into a send queue since the last doorbell.
struct softhca_posted {
	uint64_t bytes;
	uint32_t requests;
	int behind; // the queue was not empty
};

// softhca_cm_file is an open file of /dev/infiniband/rdma_cm. The program has the reading end
// of a pipe that holds one byte for each waiting event. pipe is the other end, which the engine
// closes.
struct softhca_cm_file {
	handle_t handle;
	int pipe;
	void *object;
	// gone is called from a thread of the engine when all copies of the program's end are
	// closed. The handle is invalid when it returns.
	void (*gone)(void *object);
};

// write_cm returns SOFTHCA_CM_AGAIN for GET_EVENT if there is no event any more: the caller has
// to read the next byte.
enum { SOFTHCA_CM_AGAIN = -1 };

// softhca_sleep says until when a thread sleeps: until *awake is not 0, which also makes one of the
// descriptors readable, or until one of them is readable, at most for limit ns, negative for no
// limit.
struct softhca_sleep {
	int *awake;
	int channel; // of a channel with an event, readable only if *awake is not 0; -1: none
	int set;     // an epoll set of the program; -1: none
	int ends;    // readable for what ends any sleep
	int64_t limit;
};

struct softhca_calls {
	uint32_t abi;

	int (*open)(struct softhca_config *c, handle_t *dev);
	int (*close)(handle_t dev);
	// flush sends pending acknowledgements, for a program that ends with the adapter open.
	int (*flush)(handle_t dev);
	int (*describe)(handle_t dev, struct softhca_adapter *a);

	int (*alloc_pd)(handle_t dev, handle_t *pd);
	int (*dealloc_pd)(handle_t pd);

	int (*reg_mr)(handle_t pd, struct softhca_mr *m);
	int (*rereg_mr)(struct softhca_mr *m, uint32_t what, handle_t pd);
	int (*dereg_mr)(handle_t mr);
	// advise_mr follows an advice before it returns; with wait, it returns EFAULT for memory
	// that is not mapped.
	int (*advise_mr)(handle_t pd, uint32_t advice, int wait, struct softhca_sge *list, uint32_t n);

	int (*alloc_dm)(handle_t dev, struct softhca_dm *m);
	int (*free_dm)(handle_t dm);

	int (*alloc_mw)(handle_t pd, uint32_t type, handle_t *mw, uint32_t *rkey);
	int (*dealloc_mw)(handle_t mw);

	// size_cq, size_srq and size_qp set the sizes of the rooms that a queue to be created with these
	// attributes needs. The numbers of entries and elements are within the adapter's limits.
	int (*size_cq)(struct softhca_cq *q);
	int (*size_srq)(struct softhca_srq *s);
	int (*size_qp)(struct softhca_qp *q);

	int (*create_cq)(handle_t dev, struct softhca_cq *q);
	int (*resize_cq)(handle_t cq, uint32_t *cqe);
	int (*arm_cq)(handle_t cq, int solicited);
	// moderate_cq delays events; await_cq counts completions that were in the queue when it
	// was armed, and that no event has announced.
	int (*moderate_cq)(handle_t cq, uint32_t count, uint32_t period_us);
	int (*await_cq)(handle_t cq, uint32_t completions);
	int (*destroy_cq)(handle_t cq);

	// open_xrcd fails with EOPNOTSUPP if another process has the domain of the file. name
	// identifies the file; it is empty for a domain without a file.
	int (*open_xrcd)(handle_t dev, int file, char *name, handle_t *xrcd);
	int (*close_xrcd)(handle_t xrcd);

	int (*create_srq)(handle_t pd, struct softhca_srq *s);
	int (*limit_srq)(handle_t srq, uint32_t limit);
	// The caller of resize_srq excludes posts meanwhile.
	int (*resize_srq)(handle_t srq, uint32_t wr);
	int (*query_srq)(handle_t srq, struct softhca_srq *s);
	int (*destroy_srq)(handle_t srq);

	int (*create_qp)(handle_t pd, struct softhca_qp *q);
	// target_qp creates an XRC target, or opens the one with the number qpn, if that is not 0.
	int (*target_qp)(handle_t xrcd, struct softhca_qp *q);
	int (*modify_qp)(handle_t qp, struct softhca_qp_attr *a, uint32_t mask);
	int (*query_qp)(handle_t qp, struct softhca_qp_attr *a);
	int (*limit_qp)(handle_t qp, uint32_t rate, uint32_t burst);
	// destroy_qp fails with EBUSY if the queue pair is attached to multicast groups, unless
	// the caller asks to detach it.
	int (*destroy_qp)(handle_t qp, int detach);

	int (*create_ah)(handle_t pd, struct softhca_av *av, uint64_t *ah);
	int (*destroy_ah)(handle_t pd, uint64_t ah);

	int (*attach)(handle_t qp, uint8_t *gid);
	int (*detach)(handle_t qp, uint8_t *gid);

	// check asks the fault rules whether a request may be posted.
	int (*check)(handle_t qp, int kind);
	int (*check_srq)(handle_t srq);
	// refused and refused_srq log why the library refuses a post, which the program gets as an error number.
	int (*refused)(handle_t qp, char *call, int code, char *why);
	int (*refused_srq)(handle_t srq, char *call, int code, char *why);
	// doorbell makes the engine send what was posted; polling does so too.
	int (*doorbell)(handle_t qp, struct softhca_posted *p, int *waits);
	// sleep may return early. The calling thread waits at the network, or at its descriptors
	// while another thread has the network.
	int (*sleep)(handle_t dev, struct softhca_sleep *s);
	// progress receives and sends on the calling thread; overdue sends requests that wait
	// to be sent with later ones.
	int (*progress)(handle_t cq, int *waits);
	int (*overdue)(handle_t dev, int *waits);

	// The connection manager of the kernel's user interface, over adapters that stay open.
	// write_cm executes a command that a program has written; before GET_EVENT the caller
	// has read a byte from the pipe. disconnect_cm ends all connections of a program that ends.
	int (*open_cm)(handle_t *devs, int n, handle_t *cm);
	int (*open_cm_file)(handle_t cm, struct softhca_cm_file *f);
	int (*write_cm)(handle_t file, void *command, size_t size);
	int (*disconnect_cm)(handle_t cm);
	// shut_cm closes a file if the program has closed its end of the pipe. The file may be
	// gone already.
	int (*shut_cm)(handle_t file);
};

#endif
