// Programs with one bug each, and without it. A case does what its name says if its argument is true, and the
// same without the bug otherwise. The line that the checker must name ends with the mark FOUND.
#include "../../../test/program/rig.h"

struct bug {
	const char *name;
	// What the checker must report; other cases may have the same. In races.c, the function of the adapter in the report of
	// ThreadSanitizer, and in ordered.c "none".
	const char *finding;
	void (*run)(bool bug);
};

// The cases of the files; the last has no name.
extern const struct bug memory_bugs[], freed_bugs[], poisoned_bugs[], race_bugs[], right_races[], key_bugs[], event_bugs[], queue_bugs[], lifetime_bugs[], advice_bugs[];

// element returns the first n bytes of the buffer of a side.
struct ibv_sge element(struct rig *r, int side, uint32_t n);

// post_element posts a signaled request of side 0, with one element, to the start of the buffer of side 1.
int post_element(struct rig *r, enum ibv_wr_opcode op, struct ibv_sge s);

// receive_element posts a receive of side 1, with one element.
void receive_element(struct rig *r, struct ibv_sge s);

// send_datagram posts a message of n bytes from the UD queue pair of side 0 to that of side 1.
int send_datagram(struct rig *r, struct ibv_ah *ah, uint32_t n);

// make_ah returns an address handle for the adapter itself.
struct ibv_ah *make_ah(struct rig *r, struct ibv_pd *pd);

// ends waits for a completion, which must be a success or an error.
void ends(struct ibv_cq *q, bool success);

// await_completion waits until a completion comes after those of the last call, and does not poll it.
void await_completion(struct rig *r, struct ibv_cq *q);

// wait_ms waits for some time. It is for threads that end what a bug would block forever.
void wait_ms(int ms);

// move_to moves a queue pair to a state that needs no other attributes.
void move_to(struct ibv_qp *q, enum ibv_qp_state s);

// connect_anew moves both queue pairs to RESET, and connects them again.
void connect_anew(struct rig *r);

// use_queue gives a side another completion queue, and a new queue pair for it.
void use_queue(struct rig *r, int side, struct ibv_cq *q);

// open_extended opens a rig whose side 0 has a queue pair for the calls of ibv_wr.
struct ibv_qp_ex *open_extended(struct rig *r);
