// A value and the lock that guards it. The standard library has the same, but on Linux its lock is invisible to ThreadSanitizer, which then
// reports every guarded access: with POSIX's the reports that are left are real.

import Glibc

/// `@unchecked Sendable` because the value is reachable with the lock held only.
public final class Mutex<Value>: @unchecked Sendable {
    @usableFromInline let lock: UnsafeMutablePointer<pthread_mutex_t>
    @usableFromInline var value: Value

    public init(_ value: Value) {
        self.value = value
        lock = .allocate(capacity: 1)
        lock.initialize(to: pthread_mutex_t())
        pthread_mutex_init(lock, nil)
    }

    deinit {
        pthread_mutex_destroy(lock)
        lock.deallocate()
    }

    @inlinable @inline(__always)
    public func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        return body(&value)
    }
}
