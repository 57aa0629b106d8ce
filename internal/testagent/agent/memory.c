// Protection domains, memory regions and windows.
#define _GNU_SOURCE
#include "agent.h"

#include <sys/mman.h>

enum {
	HEX_MAX = 16384, // bytes of memory in one line
	GUARD = 4096,    // bytes before and behind each region
	GUARD_BYTE = 0xa5,
};

static const uint64_t MEMORY_MAX = 256ull << 20; // of all regions together
static uint64_t memory_used;

void unmap(struct object *o)
{
	munmap(o->map, o->map_len);
	memory_used -= o->map_len;
}

const struct name ACCESS[] = {
	{ "LOCAL_WRITE", IBV_ACCESS_LOCAL_WRITE }, { "REMOTE_WRITE", IBV_ACCESS_REMOTE_WRITE }, { "REMOTE_READ", IBV_ACCESS_REMOTE_READ },
	{ "REMOTE_ATOMIC", IBV_ACCESS_REMOTE_ATOMIC }, { "MW_BIND", IBV_ACCESS_MW_BIND }, { "ZERO_BASED", IBV_ACCESS_ZERO_BASED },
	{ "FLUSH_GLOBAL", 1 << 8 }, { "FLUSH_PERSISTENT", 1 << 9 }, // older headers have no names for these
	{ 0, 0 }
};

void do_pd(void)
{
	if (may_create())
		created(PD, ibv_alloc_pd(ctx), "alloc_pd");
}

void do_mr(void)
{
	uint64_t size = number("size", 0, MEMORY_MAX), align = number("align", 0, 4095), iova = number("iova", 0, UINT64_MAX);
	int access = names_in(0, rq.n, ACCESS, "access", 0);
	struct object *pd = arg(PD, "pd"), *o;
	size_t map_len = (align + size + 2 * GUARD + 4095) & ~(size_t)4095;
	struct ibv_mr *mr;
	uint8_t *map;
	int h;

	if (!may_create())
		return;
	if (memory_used + map_len > MEMORY_MAX) {
		fail(ENOMEM, "more than %" PRIu64 " bytes of regions", MEMORY_MAX);
		return;
	}
	map = mmap(NULL, map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED) {
		fail(error_of(0), "mmap");
		return;
	}
	memset(map, GUARD_BYTE, map_len);
	memset(map + GUARD + align, 0, size);
	mr = given("iova") ? ibv_reg_mr_iova(pd->pd, map + GUARD + align, size, iova, access) : ibv_reg_mr(pd->pd, map + GUARD + align, size, access);
	if (!(h = created(MR, mr, "reg_mr"))) {
		munmap(map, map_len);
		return;
	}
	memory_used += map_len;
	o = &objects[h];
	o->map = map;
	o->map_len = map_len;
	o->addr = map + GUARD + align;
	o->len = size;
	put(" addr=0x%" PRIx64 " lkey=0x%x rkey=0x%x", given("iova") ? iova : (uint64_t)(uintptr_t)o->addr, mr->lkey, mr->rkey);
}

void do_mw(void)
{
	struct object *pd = arg(PD, "pd");
	uint64_t type = number("type", 2, 2);
	int h;

	if (may_create() && (h = created(MW, ibv_alloc_mw(pd->pd, type == 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2), "alloc_mw")))
		put(" rkey=0x%x", objects[h].mw->rkey);
}

// The bytes off..off+len of the region that the request names, NULL if the region has no such
// bytes.
static uint8_t *range(uint64_t *len, uint64_t otherwise)
{
	struct object *mr = arg(MR, "mr");
	uint64_t off = number("off", 0, MEMORY_MAX);

	if (!mr)
		return NULL;
	if (otherwise == UINT64_MAX)
		otherwise = off < mr->len ? mr->len - off : 0;
	*len = number("len", otherwise, MEMORY_MAX);
	if (!failed && (off > mr->len || *len > mr->len - off))
		fail(ERANGE, "off=%" PRIu64 " len=%" PRIu64 " is outside of the region's %zu bytes", off, *len, mr->len);
	return failed ? NULL : mr->addr + off;
}

// A byte of the pattern SEED: each word of 8 bytes, little endian, is a number of splitmix64.
static uint8_t pattern(uint64_t seed, uint64_t at)
{
	uint64_t z = seed + (at / 8 + 1) * 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (z ^ (z >> 31)) >> (8 * (at % 8));
}

void do_fill(void)
{
	uint64_t len = 0, seed = number("seed", 0, UINT64_MAX), at = number("at", 0, UINT32_MAX);
	int byte = number("byte", 0, 255);
	uint8_t *p = range(&len, UINT64_MAX);

	bool constant = given("byte");

	if (!p || failed)
		return;
	for (uint64_t i = 0; i < len; i++)
		p[i] = constant ? byte : pattern(seed, at + i);
}

void do_verify(void)
{
	uint64_t len = 0, seed = number("seed", 0, UINT64_MAX), at = number("at", 0, UINT32_MAX), bad = 0, first = 0;
	int byte = number("byte", 0, 255), want = 0, got = 0;
	uint8_t *p = range(&len, UINT64_MAX);
	bool constant = given("byte");

	if (!p || failed)
		return;
	for (uint64_t i = 0; i < len; i++) {
		uint8_t w = constant ? byte : pattern(seed, at + i);

		if (p[i] != w && !bad++) {
			first = i;
			want = w;
			got = p[i];
		}
	}
	put("bad=%" PRIu64, bad);
	if (bad)
		put(" first=%" PRIu64 " want=0x%02x got=0x%02x", first, want, got);
}

void do_guard(void)
{
	struct object *mr = arg(MR, "mr");
	uint64_t bad = 0;

	if (!mr)
		return;
	for (uint8_t *p = mr->map; p < mr->addr; p++)
		bad += *p != GUARD_BYTE;
	for (uint8_t *p = mr->addr + mr->len; p < mr->map + mr->map_len; p++)
		bad += *p != GUARD_BYTE;
	put("bad=%" PRIu64, bad);
}

// FNV-1a, 64 bits.
void do_sum(void)
{
	uint64_t len = 0, sum = 0xcbf29ce484222325ull;
	uint8_t *p = range(&len, UINT64_MAX);

	if (!p)
		return;
	for (uint64_t i = 0; i < len; i++)
		sum = (sum ^ p[i]) * 0x100000001b3ull;
	put("sum=0x%016" PRIx64, sum);
}

void do_read(void)
{
	uint64_t len = 0;
	uint8_t *p = range(&len, 0);

	if (!p)
		return;
	if (len > HEX_MAX) {
		fail(ERANGE, "len=%" PRIu64 " is more than %d; use sum or verify", len, HEX_MAX);
		return;
	}
	put("hex=");
	for (uint64_t i = 0; i < len; i++)
		put("%02x", p[i]);
}

void do_write(void)
{
	const char *hex = find(0, rq.n, "hex");
	size_t n = hex ? strlen(hex) : 0;
	uint64_t len = n / 2;
	uint8_t *p = range(&len, n / 2);

	if (!p)
		return;
	if (!hex || n % 2 || len != n / 2 || n / 2 > HEX_MAX) {
		fail(EINVAL, "hex= wants pairs of digits, for at most %d bytes", HEX_MAX);
		return;
	}
	if (strspn(hex, "0123456789abcdefABCDEF") != n) {
		fail(EINVAL, "hex= has something else than digits");
		return;
	}
	for (size_t i = 0; i < n / 2; i++)
		sscanf(hex + 2 * i, "%2hhx", &p[i]);
}
