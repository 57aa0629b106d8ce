// Messages begin and end with their number.
#include "epoll.h"

char *new_message(uint32_t size)
{
	char *m = aligned_alloc(64, (size + 63) / 64 * 64);
	need(m != NULL);
	memset(m, 0, size);
	return m;
}

void number_message(char *message, uint32_t size, uint64_t number)
{
	memcpy(message, &number, sizeof number);
	memcpy(message + size - sizeof number, &number, sizeof number);
}

// number_of ends the program if the beginning and the end of a message are of different messages.
uint64_t number_of(const char *message, uint32_t size)
{
	uint64_t first, last;
	memcpy(&first, message, sizeof first);
	memcpy(&last, message + size - sizeof last, sizeof last);
	need(first == last);
	return first;
}
