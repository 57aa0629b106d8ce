// What the mutants of TestMovedCSource are looked for in. { This is no code.
#include "moved.h"

#define TWICE(name) \
	int name##_once(void) { return once(1); } \
	int name##_twice(void) { return once(2); }

enum { ROOM = 1 };

struct pair {
	int a, b; // once(3) {
};

static const struct {
	int a, b;
} table[ROOM][2] = {
	{{1, 2}, {3, 4}},
};

static const char brace[] = "{", quote = '"';

__attribute__((constructor)) static void first(void)
{
	once(4); // as it should be
	once('{');
}

static struct pair *callback(int (*f)(struct pair *), bool (*is)(int, int))
{
	if (is(1, 2)) {
		once(4);
	}
	return again(f), again(f);
}

int line(void) { return only("}"); }

EXPORT VERB(int, ibv_verb, (struct pair *a, struct pair *b),
	    a, b)
{
	return f(a) && f(b);
}

#if ROOM > 1
int twin(void) { return 1; }
#else
int twin(void) { return 2; }
#endif
