// A value protected by a POSIX lock. On Linux, ThreadSanitizer cannot see the lock of the standard library's Mutex and reports every
// protected access. With a POSIX lock its reports are real.

import Glibc

/// `@unchecked Sendable` because the value is accessible only while the lock is held.
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
