// Counts the instructions of a thread with the kernel's performance counters. The count does not depend on the machine's load.
#pragma once
#include <stdint.h>

// Starts counting the calling thread's instructions in user mode; -1 if the kernel or the processor does not support it.
int cinstructions_open(void);

uint64_t cinstructions_read(int counter);
