#include "../program/rig.h"

extern const struct scenario crashes[], forks[], fatals[], tables[];

// wrong_call makes a call that fails with EINVAL, which the checker records at once.
void wrong_call(struct rig *r);

// refuse makes a request that the peer refuses. It returns when the completion waits: then the engine has left a note
// about the refusal, which the library takes when the program polls.
void refuse(struct rig *r);
