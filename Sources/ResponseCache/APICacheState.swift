// State shared by all caches of a process: the store, and related records in memory. All of it is thread-safe.

import CachePolicy
import CacheStore
import ContentCodings
import HTTPCore
import Synchronization

public final class APICacheState: Sendable {
    public let settings: ResponseCacheSettings
    let store: ResponseStore
    public let sent: SentRequests
    /// nil if no setting needs it.
    public let cookieOrigins: CookieOrigins?
    /// nil if gone resources are not recorded.
    public let gone: GoneMemory?
    public let surprises: SurpriseMemory
    /// nil if No-Vary-Search is disabled.
    let variances: SearchVarianceMemory?
    let varianceSign: SearchVarianceSign
    /// Learned facts about unknown fields of requests.
    public let unknownFields: UnknownFieldMemory
    let purges: PurgeClock
    let marks: RecentMarks
    public let times: CausalTimes
    let storeMemory: StoreMemory
    /// Whether a reload has replaced this state. Its rules may be outdated, so nothing more is stored through it.
    private let isReplaced = Atomic(false)

    /// Opens the store.
    /// - Parameters:
    ///   - inherited: parts of the store handed over by another process; nil if there are none.
    ///   - whenWriting: called from the store's queue when the disk starts to refuse writes, and when it accepts them again.
    public convenience init(
        opening location: StoreLocation, inherited: HandedStore? = nil, sent: SentRequests, settings: ResponseCacheSettings,
        whenWriting: @escaping @Sendable (WritingReport) -> Void
    ) throws(StoreError) {
        var location = location
        location.encode = Self.encoding()
        location.whenWriting = { [directory = location.directory, limit = location.capacityBytes] in
            whenWriting(WritingReport($0, directory: directory, limitBytes: limit))
        }
        self.init(store: try ResponseStore(location, inherited: inherited), isInherited: inherited != nil, sent: sent, settings: settings)
    }

    /// Returns the content encoder for the store's writer.
    public static func encoding() -> @Sendable (UnsafeRawBufferPointer, UInt8) -> [UInt8]? {
        let encoder = ContentEncoder()
        return { content, number in ContentCoding(number: number).flatMap { encoder.encode(content, $0) } }
    }

    public convenience init(store: ResponseStore, isInherited: Bool = false, sent: SentRequests, settings: ResponseCacheSettings) {
        let times = CausalTimes()
        self.init(
            store: store, sent: sent, PurgeClock(), RecentMarks(), times, SearchVarianceSign(store: store),
            StoreMemory(store: store, times, isInherited: isInherited), settings)
    }

    /// Creates the state of another API in the store of `other`.
    /// - Parameter former: state of this API under earlier settings; nil if there is none.
    public convenience init(beside other: APICacheState, settings: ResponseCacheSettings, after former: APICacheState? = nil) {
        self.init(
            store: other.store, sent: other.sent, other.purges, other.marks, other.times, other.varianceSign, other.storeMemory, settings,
            after: former)
    }

    private init(
        store: ResponseStore, sent: SentRequests, _ purges: PurgeClock, _ marks: RecentMarks, _ times: CausalTimes,
        _ sign: SearchVarianceSign, _ storeMemory: StoreMemory, _ settings: ResponseCacheSettings, after former: APICacheState? = nil
    ) {
        (self.settings, self.storeMemory) = (settings, storeMemory)
        unknownFields = former?.unknownFields ?? UnknownFieldMemory()
        (self.store, self.sent, self.purges, self.marks, self.times, varianceSign) = (store, sent, purges, marks, times, sign)
        cookieOrigins =
            settings.remembersCookieOrigins
            ? former?.cookieOrigins ?? CookieOrigins(store: store, name: settings.isOneOfSeveral ? settings.keyName : []) : nil
        gone = settings.remembersGone ? former?.gone ?? GoneMemory(store: store) : nil
        let formerSurprises = former?.settings.surpriseWindow == settings.surpriseWindow ? former?.surprises : nil
        surprises = formerSurprises ?? SurpriseMemory(window: settings.surpriseWindow)
        variances = settings.policy.usesNoVarySearch ? former?.variances ?? SearchVarianceMemory(store: store, sign) : nil
    }

    /// The cache directory.
    var directory: String { store.settings.directory }

    /// Returns whether an earlier lookup would give an equal result now, as far as that depends on the store.
    public func holds(_ basis: FindingBasis, now: Timestamp) -> Bool {
        store.holds(basis.lookUps) && basis.isIdentityCurrent && settings.fleet?.logLink.holds(basis.confirmed, now: now) != false
    }

    /// Marks this state as replaced: nothing more is stored through it.
    public func replace() { isReplaced.store(true, ordering: .releasing) }

    var takesNothing: Bool { isReplaced.load(ordering: .acquiring) }

    /// Cryptographic digest that replaces a long part of a key, so that no two contents with one key can be constructed.
    public func contentDigest(_ content: [UInt8]) -> [UInt8] { store.contentDigest(content) }

    /// Removes everything from the store, of all APIs.
    func removeAll() {
        marks.noteRemovalOfAll()
        store.removeAll()
        storeMemory.times.forget()
    }

    /// Waits until all stored responses can be read from the files.
    public func flush() { store.flush() }

    /// Waits until all removals and marks are written to the files.
    public func flushMarks() { store.flushMarks() }

    /// Whether a removal or a mark is not written to the files yet.
    public var hasUnwrittenMarks: Bool { store.hasUnwrittenMarks }

    /// Calls `then` when all earlier removals and marks are in the files, or the disk has refused them: immediately, or from the store's
    /// queue.
    public func whenMarksWritten(_ then: @escaping @Sendable (_ isWritten: Bool) -> Void) { store.whenMarksWritten(then) }

    /// Waits until all removals and marks are written to the files and synchronized to the disk.
    /// - Returns: false if the disk rejected some of them.
    @discardableResult
    public func synchronize() -> Bool { store.synchronize() }

    /// Writes pending records and closes the store.
    public func close() {
        storeMemory.times.writeExactTime()
        store.close()
    }

    // MARK: Content sent from files

    public func isInMemory(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject) -> Bool { store.isInMemory(bytes, of: owner) }

    /// Loads content into memory.
    /// - Parameter then: called once, on a thread of the store.
    public func load(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject, then: @escaping @Sendable () -> Void) {
        store.load(bytes, of: owner, then: then)
    }
}

/// The current time for the cache.
public struct CacheTime: Sendable {
    /// Wall-clock time, for the caching rules.
    public let wall: Timestamp
    /// Milliseconds of a monotonic clock.
    public let monotonic: Int64

    public init(wall: Timestamp, monotonic: Int64) {
        self.wall = wall
        self.monotonic = monotonic
    }
}
