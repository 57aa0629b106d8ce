// ends is an initiator and a target that are connected to each other, and a shared receive queue
// in the target's domain.
struct ends {
	struct rig r;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *ini, *tgt;
	uint32_t srqn;
};

void ends_open(struct ends *e);
void ends_close(struct ends *e);
void receive_xrc(struct ends *e, uint64_t id);
