#include "ring.h"

// max_qps is how many queue pairs a reader tells apart.
enum { max_qps = 16 };

// board is what readers know of removals: of queue pair n, every entry with a
// wr_id less than removed[n] is gone.
struct board {
	_Atomic uint64_t removed[max_qps];
};

// taken is an entry that a reader took.
struct taken {
	uint64_t wr_id;
	uint32_t qp_num;
	uint8_t late, status, unused[2]; // late: it had been removed
};

struct reader;
struct reader *reader_start(struct ring *h, const struct board *b, size_t room);
void reader_stop(struct reader *r);
void reader_free(struct reader *r);
size_t reader_count(const struct reader *r);
const struct taken *reader_taken(const struct reader *r);
int reader_overflow(const struct reader *r);

void locked_add(struct ring *h, uint64_t *counter, uint64_t n);

struct producer;
struct producer *producer_start(struct ring *h, int receives, uint64_t n);
void producer_join(struct producer *p);

void post_send(struct ring *h, const struct ring_send *w, const struct ring_sge *s);
void post_recv(struct ring *h, const struct ring_recv *w, const struct ring_sge *s);
