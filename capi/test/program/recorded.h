// Scenarios over the recorder, an engine that records what the library passes to it.
#include "rig.h"

#include "../recorder/recorder.h"

// SAME fails unless two values are equal, and prints both.
#define SAME(got, want)                                                                        \
	do {                                                                                   \
		long long got_ = (long long)(got), want_ = (long long)(want);                  \
		if (got_ != want_) {                                                           \
			fprintf(stderr, "%s:%d: failed: %s is %lld, want %s, %lld\n", __FILE__, __LINE__, #got, got_, #want, want_); \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

// recording is an adapter over the recorder.
struct recording {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp, *with_srq;
	struct ibv_qp_ex *ex;
};

extern struct recorder *rec;

void find_recorder(void);
void recording_open(struct recording *r);
void recording_close(struct recording *r);

