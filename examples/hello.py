# Two queue pairs of one adapter are connected to each other. One writes into the
# memory of the other; then it tries the same with a wrong key.
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
import pyverbs.enums as e
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

TEXT = 'hello, world'

ctx = Context(name=get_device_list()[0].name.decode())
gid = ctx.query_gid(port_num=1, index=0)
pd = PD(ctx)
cq = CQ(ctx, 16)
here = MR(pd, len(TEXT), e.IBV_ACCESS_LOCAL_WRITE)
there = MR(pd, len(TEXT), e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)


def queue_pair():
    cap = QPCap(max_send_wr=4, max_recv_wr=4)
    return QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap))


def connect(qp, peer):
    # A real program learns the peer's QP number, GID and first PSN (0 here) from the
    # peer, over TCP or by rdma_cm.
    a = QPAttr(port_num=1)
    a.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE
    a.path_mtu = e.IBV_MTU_1024
    a.dest_qp_num = peer.qp_num
    a.max_dest_rd_atomic = a.max_rd_atomic = 1
    a.min_rnr_timer = 12
    a.timeout = 14
    a.retry_cnt = a.rnr_retry = 7
    a.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=0, hop_limit=64))
    qp.to_rts(a)


def write(qp, rkey):
    here.write(TEXT, len(TEXT))
    wr = SendWR(opcode=e.IBV_WR_RDMA_WRITE, send_flags=e.IBV_SEND_SIGNALED,
                num_sge=1, sg=[SGE(here.buf, len(TEXT), here.lkey)])
    wr.set_wr_rdma(rkey, there.buf)
    qp.post_send(wr)
    while True:
        n, wcs = cq.poll(1)
        if n:
            return wcs[0].status


p, q = queue_pair(), queue_pair()
connect(p, q)
connect(q, p)
print('a WRITE:', write(p, there.rkey))
print('the memory has:', there.read(len(TEXT), 0).decode())
print('a wrong key:', write(p, there.rkey ^ 0xff))
