// The protocol of the key-value store, and what its server and its client share.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <stdbool.h>
#include <stdint.h>

// The bounds of the protocol.
#define KEY_SIZE 32                 // bytes of a key with its NUL
#define SMALL_SIZE 64               // values up to this size are in the messages
#define VALUE_SIZE (1024u * 1024u)  // the largest value

// The operations of a request.
#define OP_PUT 1u
#define OP_GET 2u
#define OP_DELETE 3u

// The statuses of a response.
#define ST_OK 0u
#define ST_NOT_FOUND 1u
#define ST_BAD_REQUEST 2u
#define ST_NO_ROOM 3u

// A request is one SEND. All numbers of messages are big-endian. The memory at address has the value of a PUT
// that is larger than SMALL_SIZE, or room for the value of a GET. The server reads and writes it by RDMA
// before it sends the response.
struct request {
	uint32_t op;
	uint32_t sequence;
	uint32_t length; // of the value of a PUT, or of the room of a GET
	uint32_t rkey;
	uint64_t address;
	char key[KEY_SIZE];
	unsigned char small[SMALL_SIZE];
};

// A response is one SEND.
struct response {
	uint32_t sequence; // of the request
	uint32_t status;
	uint32_t length; // of the value of a GET
	unsigned char small[SMALL_SIZE];
};

// A notice is a copy of an rdma_cm event that is already acknowledged.
struct notice {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
};

// These functions write what has failed to standard error.
bool failed(const char *what);            // with the text of errno; returns false
bool check(int error, const char *what);  // for calls that return an error number; reports whether it is 0
bool worked(int result, const char *what); // for calls that return -1 and set errno; reports whether it is 0

// Deadlines are in milliseconds of a clock that never jumps.
int64_t now(void);
int wait_for(int fd, int64_t deadline); // 1 if fd can be read, 0 at the deadline, -1 after an error

// next_notice reads one event of a channel. It may block: wait for the channel first.
bool next_notice(struct rdma_event_channel *channel, struct notice *n);

// These functions destroy an object, if there is one. They report whether it is gone.
bool deregister(struct ibv_mr **mr);
bool destroy_cq(struct ibv_cq **cq);
bool dealloc_pd(struct ibv_pd **pd);
bool destroy_id(struct rdma_cm_id **id);
