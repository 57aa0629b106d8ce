// Takes locks of libibverbs in the order that the first argument names.
#include "lock.h"

#include <string.h>

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t send, ring;

int main(int argc, char **argv)
{
	const char *order = argc > 1 ? argv[1] : "";
	if (strcmp(order, "right") == 0) {
		mutex_lock(LOADING_LOCK, &outer);
		spin_lock(SEND_LOCK, &send);
		may_enter();
		mutex_unlock(&outer); // not the one taken last
		mutex_lock(SOURCE_LOCK, &inner);
		spin_lock(RING_LOCK, &ring);
		spin_unlock(&ring);
		mutex_unlock(&inner);
		spin_unlock(&send);
		mutex_lock(LOADING_LOCK, &outer);
	} else if (strcmp(order, "wrong") == 0) {
		mutex_lock(SOURCE_LOCK, &inner);
		mutex_lock(DEVICE_LOCK, &outer);
	} else if (strcmp(order, "equal") == 0) {
		mutex_lock(SOURCE_LOCK, &inner);
		mutex_lock(SOURCE_LOCK, &outer);
	} else if (strcmp(order, "engine") == 0) {
		mutex_lock(DEVICE_LOCK, &inner);
		may_enter();
	} else {
		mutex_unlock(&outer);
	}
	return 0;
}
