// What all caches of one process share: the store, and what is remembered beside it in memory. All of it guards itself.

import CachePolicy
import CacheStore
import ContentCodings
import HTTPCore
import Synchronization

public final class SharedCacheState: Sendable {
    public let settings: ResponseCacheSettings
    let store: ResponseStore
    public let sent: SentRequests
    /// nil where nothing asks for it.
    public let cookieOrigins: CookieOrigins?
    /// nil where what is gone is not remembered.
    public let gone: GoneMemory?
    public let surprises: SurpriseMemory
    /// nil where No-Vary-Search is not looked at.
    let variances: SearchVarianceMemory?
    let varianceSign: SearchVarianceSign
    /// What is known of requests' unknown fields.
    public let unknownFields: UnknownFieldMemory
    let purges: PurgeClock
    let marks: RecentMarks
    let times: CausalTimes
    let storeMemory: StoreMemory
    /// Whether another is in its place: by its rules, which may be others, nothing is stored any more.
    private let isReplaced = Atomic(false)

    /// Opens the store.
    /// - Parameters:
    ///   - handed: what another process has handed over of it.
    ///   - whenWriting: called from the store's queue when the disk starts to refuse writes, and when it accepts them again.
    public convenience init(
        opening place: StorePlace, handed: HandedStore? = nil, sent: SentRequests, settings: ResponseCacheSettings,
        whenWriting: @escaping @Sendable (WritingReport) -> Void
    ) throws(StoreError) {
        var place = place
        place.encode = Self.encoding()
        place.whenWriting = { [directory = place.directory, limit = place.capacityBytes] in
            whenWriting(WritingReport($0, directory: directory, limitBytes: limit))
        }
        self.init(store: try ResponseStore(place, handed: handed), isHanded: handed != nil, sent: sent, settings: settings)
    }

    /// For the store's writer.
    public static func encoding() -> @Sendable (UnsafeRawBufferPointer, UInt8) -> [UInt8]? {
        let encoder = ContentEncoder()
        return { content, number in ContentCoding(number: number).flatMap { encoder.encode(content, $0) } }
    }

    public convenience init(store: ResponseStore, isHanded: Bool = false, sent: SentRequests, settings: ResponseCacheSettings) {
        let times = CausalTimes()
        self.init(
            store: store, sent: sent, PurgeClock(), RecentMarks(), times, SearchVarianceSign(store: store),
            StoreMemory(store: store, times, isHanded: isHanded), settings)
    }

    /// That of another API, in the same store.
    /// - Parameter former: of the same API, under other settings.
    public convenience init(beside other: SharedCacheState, settings: ResponseCacheSettings, after former: SharedCacheState? = nil) {
        self.init(
            store: other.store, sent: other.sent, other.purges, other.marks, other.times, other.varianceSign, other.storeMemory, settings,
            after: former)
    }

    private init(
        store: ResponseStore, sent: SentRequests, _ purges: PurgeClock, _ marks: RecentMarks, _ times: CausalTimes,
        _ sign: SearchVarianceSign, _ storeMemory: StoreMemory, _ settings: ResponseCacheSettings, after former: SharedCacheState? = nil
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

    /// Where it lies.
    var directory: String { store.settings.directory }

    /// Whether a request that was looked up would be given the same now, as far as that depends on what is stored.
    public func holds(_ basis: FindingBasis, now: Timestamp) -> Bool {
        store.holds(basis.lookUps) && basis.isIdentityCurrent && settings.fleet?.sight.holds(basis.confirmed, now: now) != false
    }

    /// From now on nothing is stored through this one.
    public func replace() { isReplaced.store(true, ordering: .releasing) }

    var takesNothing: Bool { isReplaced.load(ordering: .acquiring) }

    /// When a request is sent, as its response counts beside what makes responses invalid.
    public func timeOfRequest(at now: Timestamp) -> Timestamp { times.ofRequest(now) }

    /// Stands for a long part of a key, so that nobody can find two contents with one key.
    public func contentDigest(_ content: [UInt8]) -> [UInt8] { store.contentDigest(content) }

    /// Drops everything that is stored, of any API.
    func removeAll() {
        marks.noteRemovalOfAll()
        store.removeAll()
        storeMemory.times.forget()
    }

    /// Waits until all that was stored can be read from the files.
    public func flush() { store.flush() }

    /// Waits until all removals and marks are in the files.
    public func flushMarks() { store.flushMarks() }

    /// Whether a removal or a mark is not in the files.
    public var hasUnwrittenMarks: Bool { store.hasUnwrittenMarks }

    /// Calls `then` once all removals and marks that were made before are in the files, or the disk has refused them: at once, or from the store's own
    /// queue.
    public func whenMarksWritten(_ then: @escaping @Sendable (_ isWritten: Bool) -> Void) { store.whenMarksWritten(then) }

    /// The same, and until all of it is on the disk.
    public func synchronize() { store.synchronize() }

    /// Writes what waits to be written. Nothing is stored afterwards.
    public func close() {
        storeMemory.times.close()
        store.close()
    }

    // MARK: Content that is sent from the files

    public func isInMemory(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject) -> Bool { store.isInMemory(bytes, of: owner) }

    /// - Parameter then: called once, on a thread of the store's.
    public func bringIn(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject, then: @escaping @Sendable () -> Void) {
        store.bringIn(bytes, of: owner, then: then)
    }
}

/// What is known of all that lies in a store, whichever API's it is.
final class StoreMemory: Sendable {
    let times: StoredTimes
    let doubts: DoubtfulWrites
    let paths: StoredPaths

    /// - Parameter isHanded: another process still has the store.
    init(store: ResponseStore, _ times: CausalTimes, isHanded: Bool) {
        self.times = StoredTimes(store: store, times)
        doubts = DoubtfulWrites(store: store)
        paths = StoredPaths(store: store, isHanded: isHanded)
    }
}

/// The time as the cache uses it.
public struct CacheTime: Sendable {
    /// Of day, as the rules use it.
    public let wall: Timestamp
    /// Milliseconds of a clock that is never set.
    public let monotonic: Int64

    public init(wall: Timestamp, monotonic: Int64) {
        self.wall = wall
        self.monotonic = monotonic
    }
}
