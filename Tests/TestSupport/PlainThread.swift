// A thread of its own for what blocks: Dispatch has no more than some sixty for all queues, and plays that run side by side need more.

import Glibc

package enum PlainThread {
    private final class Work {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    /// Runs `body` on a new thread, which ends with it.
    package static func start(_ body: @escaping @Sendable () -> Void) {
        var thread = pthread_t()
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        let work = Unmanaged.passRetained(Work(body)).toOpaque()
        let result = pthread_create(
            &thread, &attributes,
            { work in
                if let work { Unmanaged<Work>.fromOpaque(work).takeRetainedValue().body() }
                return nil
            }, work)
        precondition(result == 0, "no thread can be started")
        pthread_attr_destroy(&attributes)
    }
}
