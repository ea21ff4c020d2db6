// Checks whether content that is sent from memory-mapped files is in memory. While a slow client reads it in pieces, the kernel may
// reclaim pages. Sending those would block the event loop, so the connection checks first.

/// Checks whether borrowed content is in memory, and loads it.
public protocol ContentMemory: AnyObject {
    func isInMemory(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject) -> Bool
    /// Loads the bytes. `then` is called once, on any thread.
    func load(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject, then: @escaping @Sendable () -> Void)
}
