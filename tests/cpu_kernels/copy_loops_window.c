// The widest vectors in which the copy loops of an instruction set look for bytes: data alone, so that its flags make no instruction.
#include "vectors.h"

extern const int64_t widest_window;
const int64_t widest_window = WINDOW;
