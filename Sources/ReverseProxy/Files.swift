// The two calls of the C library that starting and stopping need.

import Glibc

func closeDescriptor(_ descriptor: Int32) { _ = close(descriptor) }

func removeFile(_ path: String) { _ = unlink(path) }
