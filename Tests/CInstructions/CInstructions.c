#include "CInstructions.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int cinstructions_open(void) {
    struct perf_event_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.type = PERF_TYPE_HARDWARE;
    attributes.size = sizeof attributes;
    attributes.config = PERF_COUNT_HW_INSTRUCTIONS;
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    int counter = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (counter >= 0 && cinstructions_read(counter) == 0) {
        close(counter);
        return -1;
    }
    return counter;
}

uint64_t cinstructions_read(int counter) {
    uint64_t count = 0;
    return read(counter, &count, sizeof count) == sizeof count ? count : 0;
}
