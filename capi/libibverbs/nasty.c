// What softhca run --nasty asks of the library: handles that are large and in no order. The engine
// reads the text of SOFTHCA_NASTY and passes the seed.
#define _GNU_SOURCE
#include "softhca.h"

// scramble returns another number for each number. It is the last step of splitmix64 (Steele, Lea, Flood).
static uint64_t scramble(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

// another_handle returns another handle for each handle: each of its steps can be undone.
uint32_t another_handle(uint64_t seed, uint32_t handle)
{
	uint64_t key = scramble(seed);
	uint32_t x = handle ^ (uint32_t)key;
	x = (x ^ x >> 16) * ((uint32_t)(key >> 32) | 1);
	x = (x ^ x >> 15) * 0x9e3779b1;
	return x ^ x >> 16;
}
