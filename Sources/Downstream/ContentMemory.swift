// Content that is sent from a mapped file: a slow client takes it piece by piece, and meanwhile pages of it may have left the memory. Sending
// them would make the whole loop wait for the disk, so the connection asks first.

/// Knows of borrowed content what is in memory, and can bring in what is not.
public protocol ContentMemory: AnyObject {
    func isInMemory(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject) -> Bool
    /// `then` is called once, on any thread.
    func bringIn(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject, then: @escaping @Sendable () -> Void)
}

/// Carries what belongs to a loop through another thread back to it. `@unchecked Sendable` because nobody touches it on the way.
struct LoopBound<Value>: @unchecked Sendable {
    let value: Value
}
