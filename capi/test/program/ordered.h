// Queue pairs that post ATOMIC WRITE and FLUSH.

// Names that headers before rdma-core 46 lack.
enum { GLOBAL = 1, PERSISTENT = 2, RANGE = 0, REGION = 1, FLUSH_GLOBAL = 1 << 8, FLUSH_PERSISTENT = 1 << 9, WC_FLUSH = 8, WITH_FLUSH = 1 << 11, WR_FLUSH = 14 };

// rig_open_ordered opens a rig whose side 0 posts by the extended calls, and whose side 1 allows
// the flushes.
struct ibv_qp_ex *rig_open_ordered(struct rig *r, uint64_t ops, int allowed);
void flush(struct ibv_qp_ex *q, struct ibv_mr *m, size_t length, uint8_t type, uint8_t level);
