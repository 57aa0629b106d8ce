// Messages of netlink: attributes, one after the other, each aligned to four bytes.

#define _GNU_SOURCE
#include "nldev.h"

#include <string.h>

// room returns where an attribute of a length begins; NULL if it does not fit.
static unsigned char *room(struct message *m, size_t len)
{
	const size_t whole = NLA_ALIGN(len);
	unsigned char *at = m->bytes + m->len;

	if (m->full || whole > PART_MAX - m->len) {
		m->full = true;
		return NULL;
	}
	memset(at, 0, whole);
	m->len += whole;
	return at;
}

void put(struct message *m, int type, const void *value, size_t len)
{
	if (len > PART_MAX) {
		m->full = true;
		return;
	}
	unsigned char *at = room(m, NLA_HDRLEN + len);

	if (at == NULL)
		return;
	*(struct nlattr *)at = (struct nlattr){ .nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = (uint16_t)type };
	memcpy(at + NLA_HDRLEN, value, len);
}

void put_u8(struct message *m, int type, uint8_t value) { put(m, type, &value, sizeof(value)); }

void put_u32(struct message *m, int type, uint32_t value) { put(m, type, &value, sizeof(value)); }

void put_u64(struct message *m, int type, uint64_t value) { put(m, type, &value, sizeof(value)); }

void put_string(struct message *m, int type, const char *value) { put(m, type, value, strlen(value) + 1); }

size_t open_nest(struct message *m, int type)
{
	const size_t at = m->len;

	put(m, type, "", 0);
	return at;
}

void close_nest(struct message *m, size_t at)
{
	if (!m->full)
		((struct nlattr *)(m->bytes + at))->nla_len = (uint16_t)(m->len - at);
}
