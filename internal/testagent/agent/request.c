// A request and its reply.
#define _GNU_SOURCE
#include "agent.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdarg.h>
#include <strings.h>

struct request rq;
char reply[LINE_MAX_BYTES];
size_t reply_len;
bool reply_full, failed;

void begin_reply(void)
{
	reply_len = 0;
	reply_full = failed = false;
}

void put(const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(reply + reply_len, sizeof(reply) - reply_len, format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(reply) - reply_len - 1)
		reply_full = true;
	else
		reply_len += n;
}

// The first error of a request is its reply; later errors are ignored.
void fail(int err, const char *format, ...)
{
	va_list ap;

	if (failed)
		return;
	failed = true;
	reply_full = false;
	reply_len = 0;
	put("err %d ", err ? err : EIO);
	va_start(ap, format);
	if (reply_len < sizeof(reply)) {
		int n = vsnprintf(reply + reply_len, 1024, format, ap);
		reply_len += n < 0 ? 0 : n > 1023 ? 1023 : n;
	}
	va_end(ap);
}

// A verb that returns NULL or -1 should set errno, and some do not.
int error_of(int rc)
{
	if (rc > 0)
		return rc;
	return errno ? errno : EIO;
}

// Clears errno for the verb that follows; false if the request has failed already.
bool ready(void)
{
	errno = 0;
	return !failed;
}

// Whether a verb succeeded; otherwise the reply says why not.
bool done(int rc, const char *verb)
{
	if (rc)
		fail(error_of(rc), "%s", verb);
	return !rc;
}

const char *find(int from, int to, const char *key)
{
	for (int i = from; i < to; i++)
		if (!strcmp(rq.key[i], key))
			return rq.value[i];
	return NULL;
}

bool given(const char *key)
{
	return find(0, rq.n, key) != NULL;
}

static bool parse_number(const char *s, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)*s))
		return false;
	errno = 0;
	*out = strtoull(s, &end, 0);
	return !errno && !*end;
}

uint64_t to_number(const char *key, const char *s, uint64_t max)
{
	uint64_t v = 0;

	if (!parse_number(s, &v))
		fail(EINVAL, "%s=%.40s is no number", key, s);
	else if (v > max)
		fail(ERANGE, "%s=%.40s is more than %" PRIu64, key, s, max);
	else
		return v;
	return 0;
}

uint64_t number_in(int from, int to, const char *key, uint64_t otherwise, uint64_t max)
{
	const char *s = find(from, to, key);

	return s ? to_number(key, s, max) : otherwise;
}

uint64_t number(const char *key, uint64_t otherwise, uint64_t max)
{
	return number_in(0, rq.n, key, otherwise, max);
}

// Names joined by | in any case, or numbers.
static uint64_t to_names(const struct name *names, const char *key, const char *s)
{
	uint64_t all = 0;
	char word[40];

	while (*s && !failed) {
		size_t n = strcspn(s, "|");
		const struct name *nm;
		uint64_t v;

		if (n == 0 || n >= sizeof word) {
			fail(EINVAL, "%s: an empty or overlong name", key);
			return 0;
		}
		memcpy(word, s, n);
		word[n] = 0;
		for (nm = names; nm->text && strcasecmp(nm->text, word); nm++)
			;
		if (nm->text)
			all |= nm->value;
		else if (parse_number(word, &v) && v <= UINT32_MAX)
			all |= v;
		else
			fail(EINVAL, "%s: unknown name %s", key, word);
		s += n;
		if (*s == '|')
			s++;
	}
	return all;
}

uint64_t names_in(int from, int to, const struct name *names, const char *key, uint64_t otherwise)
{
	const char *s = find(from, to, key);

	return s ? to_names(names, key, s) : otherwise;
}

bool to_gid(const char *key, const char *s, union ibv_gid *gid)
{
	struct in_addr v4;

	if (inet_pton(AF_INET6, s, gid->raw) == 1)
		return true;
	if (inet_pton(AF_INET, s, &v4) == 1) {
		memset(gid->raw, 0, 10);
		gid->raw[10] = gid->raw[11] = 0xff;
		memcpy(gid->raw + 12, &v4, 4);
		return true;
	}
	fail(EINVAL, "%s=%.60s is no address", key, s);
	return false;
}
