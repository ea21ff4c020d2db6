// Counts the instructions of a thread, as far as the kernel lets us: the same on a busy machine as on a quiet one.
#pragma once
#include <stdint.h>

// Of the calling thread, from now on, outside the kernel; -1 where the kernel or the processor does not count for us.
int cinstructions_open(void);

uint64_t cinstructions_read(int counter);
