// Closing a descriptor, under a name that does not collide with the methods called `close`.

import Glibc

func closeDescriptor(_ descriptor: Int32) { _ = close(descriptor) }
