// The functions are static inline, in the header; SwiftPM wants one source file.
#include "CSystem.h"
