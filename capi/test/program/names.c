// Prints the library's names of enumerated values, and its conversions of rates, for all
// valid and some invalid values.
#include "rig.h"

enum { FROM = -2, TO = 40, MULTIPLES = 500, MBPS = 2000000 };

#define NAMES(call)                                                                            \
	for (int i = FROM; i < TO; i++)                                                        \
		printf(#call "(%d) = %s\n", i, call((unsigned)i))

static void names(void)
{
	NAMES(ibv_node_type_str);
	NAMES(ibv_port_state_str);
	NAMES(ibv_event_type_str);
	NAMES(ibv_wc_status_str);
	for (int i = FROM; i < TO; i++) {
		enum ibv_rate r = (enum ibv_rate)i;
		printf("ibv_rate_to_mult(%d) = %d\nibv_rate_to_mbps(%d) = %d\n", i, ibv_rate_to_mult(r), i, ibv_rate_to_mbps(r));
	}
	for (int i = FROM; i < MULTIPLES; i++)
		if (mult_to_ibv_rate(i) != IBV_RATE_MAX)
			printf("mult_to_ibv_rate(%d) = %d\n", i, mult_to_ibv_rate(i));
	for (int i = FROM; i < MBPS; i++)
		if (mbps_to_ibv_rate(i) != IBV_RATE_MAX)
			printf("mbps_to_ibv_rate(%d) = %d\n", i, mbps_to_ibv_rate(i));
}

const struct scenario naming[] = {{"names", names}, {NULL, NULL}};
