// Verbs of rdma-core 59 and later, declared here because the installed headers may be older.
#define LATER(result, name, ...) result later_##name(__VA_ARGS__) __asm__(#name)

struct buf;
struct mr_init {
	size_t length;
	int access;
	uint64_t mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct buf *buf;
};
enum { HAS_IOVA = 1 << 0, HAS_ADDR = 1 << 1, HAS_FD = 1 << 2, HAS_FD_OFFSET = 1 << 3, HAS_DMAH = 1 << 4, HAS_BUF = 1 << 5, HAS_OTHER = 1 << 6 };

struct counter_caps {
	uint64_t max;
	uint32_t counters, ops;
};

LATER(int, ibv_query_port_speed, struct ibv_context *c, uint32_t port, uint64_t *speed);
LATER(const char *, ibv_wr_opcode_str, int opcode);
LATER(struct ibv_mr *, ibv_reg_mr_ex, struct ibv_pd *pd, const struct mr_init *a);
LATER(void *, ibv_alloc_buf, struct ibv_pd *pd, size_t size, struct buf **out);
LATER(void, ibv_free_buf, struct buf *b);
LATER(struct ibv_mr *, ibv_reg_buf_mr, struct ibv_pd *pd, struct buf *b, void *addr, size_t length, int access);
LATER(int, ibv_export_buf_dmabuf_fd, struct buf *b);
LATER(int, ibv_dm_export_dmabuf_fd, void *dm);
LATER(void *, ibv_alloc_dmah, struct ibv_context *c, const void *attr);
LATER(int, ibv_dealloc_dmah, void *dmah);
LATER(int, _ibv_query_comp_cntr_caps, struct ibv_context *c, void *caps, size_t size);
LATER(void *, ibv_create_comp_cntr, struct ibv_context *c, const void *attr);
LATER(int, ibv_destroy_comp_cntr, void *counter);
LATER(int, ibv_qp_attach_comp_cntr, struct ibv_qp *q, void *counter, const void *attr);
LATER(int, ibv_set_comp_cntr, void *counter, uint64_t value);
LATER(int, ibv_set_err_comp_cntr, void *counter, uint64_t value);
LATER(int, ibv_inc_comp_cntr, void *counter, uint64_t value);
LATER(int, ibv_inc_err_comp_cntr, void *counter, uint64_t value);
LATER(int, ibv_read_comp_cntr, void *counter, uint64_t *value);
LATER(int, ibv_read_err_comp_cntr, void *counter, uint64_t *value);
