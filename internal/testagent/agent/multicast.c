// Attachments to multicast groups.
#define _GNU_SOURCE
#include "agent.h"

enum { GROUPS_MAX = 64 };

// A queue pair that is in a group cannot be destroyed.
static struct {
	int qp; // 0: free
	union ibv_gid gid;
} groups[GROUPS_MAX];

// Forgets the attachments of a queue pair that has been destroyed.
void forget_groups(int qp)
{
	for (int i = 0; i < GROUPS_MAX; i++)
		if (groups[i].qp == qp)
			groups[i].qp = 0;
}

void leave_groups(void)
{
	for (int i = 0; i < GROUPS_MAX; i++)
		if (groups[i].qp) {
			ibv_detach_mcast(objects[groups[i].qp].qp, &groups[i].gid, 0);
			groups[i].qp = 0;
		}
}

// The place of an attachment in groups, or with qp 0 a free one; -1 if there is none.
static int group_of(int qp, const union ibv_gid *gid)
{
	for (int i = 0; i < GROUPS_MAX; i++)
		if (groups[i].qp == qp && (!qp || !memcmp(&groups[i].gid, gid, sizeof *gid)))
			return i;
	return -1;
}

static void mcast(bool attach)
{
	struct object *qp = arg(QP, "qp");
	const char *s = find(0, rq.n, "gid");
	union ibv_gid gid;
	int rc, at, known;

	if (!s)
		fail(EINVAL, "gid= is missing");
	if (failed || !to_gid("gid", s, &gid))
		return;
	known = group_of(qp - objects, &gid);
	at = known < 0 ? group_of(0, &gid) : known;
	if (attach && at < 0) {
		fail(ENOSPC, "more than %d attachments", GROUPS_MAX);
		return;
	}
	errno = 0;
	rc = attach ? ibv_attach_mcast(qp->qp, &gid, 0) : ibv_detach_mcast(qp->qp, &gid, 0);
	if (rc) {
		fail(error_of(rc), "%s_mcast", attach ? "attach" : "detach");
	} else if (attach) {
		groups[at].qp = qp - objects;
		groups[at].gid = gid;
	} else if (known >= 0) {
		groups[known].qp = 0;
	}
}

void do_attach(void)
{
	mcast(true);
}

void do_detach(void)
{
	mcast(false);
}
