// Why a post was refused: the engine logs the reason, since an error number alone says little.
#define _GNU_SOURCE
#include "check.h"
#include "operations.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

enum { WHY = 160 };

// tell passes the reason to the engine.
__attribute__((format(printf, 3, 4))) static void tell(struct qp *q, char *call, const char *format, ...)
{
	char why[WHY];
	va_list args;
	va_start(args, format);
	vsnprintf(why, sizeof why, format, args);
	va_end(args);
	if (UNLIKELY(checking))
		check_refused(call, why);
	ENGINE(q->dev, refused, q->handle, call, EINVAL, why);
}

static const char *state_of(const struct qp *q)
{
	unsigned s = q->ibv.state;
	return s < sizeof states / sizeof *states ? states[s] : "an unknown state";
}

// payload returns the bytes of a request's list, at most one more than a limit: what is behind may not be a list.
static uint64_t payload(const struct ibv_send_wr *wr, uint64_t limit)
{
	uint64_t length = 0;
	for (int i = 0; i < wr->num_sge && length <= limit; i++)
		length += wr->sg_list[i].length;
	return length;
}

void refused_send(struct qp *q, char *call, const struct ibv_send_wr *wr)
{
	bool in_line;
	const struct operation *o;
	if (q->ibv.state < IBV_QPS_RTS) {
		tell(q, call, "the queue pair is in %s, and takes send requests from RTS on", state_of(q));
		return;
	}
	if (wr == NULL) {
		tell(q, call, "a request of the list is not valid");
		return;
	}
	if ((unsigned)wr->opcode > 31 || (operations[wr->opcode].services >> q->ibv.qp_type & 1) == 0) {
		tell(q, call, "queue pairs of this type have no operation with opcode %d", (int)wr->opcode);
		return;
	}
	o = &operations[wr->opcode];
	in_line = (wr->send_flags & IBV_SEND_INLINE) != 0;
	if ((unsigned)wr->opcode == WR_FLUSH)
		tell(q, call, "a FLUSH needs ibv_wr_flush");
	else if (o->local)
		tell(q, call, "a request of a window or a key has num_sge 0, no inline data, and to bind, a window of type 2");
	else if (wr->num_sge < 0 || (!in_line && (uint32_t)wr->num_sge > q->cap.send_sge))
		tell(q, call, "num_sge is %d, and max_send_sge of the queue pair is %u", wr->num_sge, q->cap.send_sge);
	else if (in_line && !o->carries)
		tell(q, call, "the operation with opcode %d takes no inline data", (int)wr->opcode);
	else if (in_line && payload(wr, q->cap.inline_data) > q->cap.inline_data)
		tell(q, call, "the inline data is longer than max_inline_data of the queue pair, %u", q->cap.inline_data);
	else
		tell(q, call, "%llu bytes do not suit the operation with opcode %d", (unsigned long long)payload(wr, UINT64_MAX - UINT32_MAX), (int)wr->opcode);
}

void refused_recv(struct qp *q, const struct ibv_recv_wr *wr)
{
	if (q->recv == NULL)
		tell(q, "ibv_post_recv", "the queue pair takes its receives from a shared receive queue");
	else if (q->ibv.state == IBV_QPS_RESET)
		tell(q, "ibv_post_recv", "the queue pair is in RESET, and takes receives from INIT on");
	else if (wr->num_sge < 0 || (uint32_t)wr->num_sge > q->cap.recv_sge)
		tell(q, "ibv_post_recv", "num_sge is %d, and max_recv_sge of the queue pair is %u", wr->num_sge, q->cap.recv_sge);
	else
		tell(q, "ibv_post_recv", "the receive has more than 2^31 bytes");
}

void refused_srq_recv(struct srq *s, const struct ibv_recv_wr *wr)
{
	static char call[] = "ibv_post_srq_recv";
	char why[WHY];
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > s->max_sge)
		snprintf(why, sizeof why, "num_sge is %d, and max_sge of the shared receive queue is %u", wr->num_sge, s->max_sge);
	else
		snprintf(why, sizeof why, "the receive has more than 2^31 bytes");
	if (UNLIKELY(checking))
		check_refused(call, why);
	ENGINE(device_of(s->ibv.context), refused_srq, s->handle, call, EINVAL, why);
}
