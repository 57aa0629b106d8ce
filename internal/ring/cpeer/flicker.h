#include <stdint.h>

struct flicker;
struct flicker *flicker_start(uint32_t *word, uint32_t one, uint32_t other);
void flicker_stop(struct flicker *f);
