// What all caches of one process share: the store, and what is remembered beside it in memory. All of it guards itself.

import CachePolicy
import CacheStore

package final class SharedCacheState: Sendable {
    package let settings: ResponseCacheSettings
    package let store: ResponseStore
    package let sent: SentRequests
    /// nil where nothing asks for it.
    package let cookieOrigins: CookieOrigins?
    /// nil where what is gone is not remembered.
    package let gone: GoneMemory?
    /// nil where No-Vary-Search is not looked at.
    let variances: SearchVarianceMemory?
    let purges = PurgeClock()
    let marks = RecentMarks()

    package init(store: ResponseStore, sent: SentRequests, settings: ResponseCacheSettings) {
        self.settings = settings
        self.store = store
        self.sent = sent
        cookieOrigins = settings.remembersCookieOrigins ? CookieOrigins(store: store) : nil
        gone = settings.remembersGone ? GoneMemory(store: store, window: settings.goneWindow) : nil
        variances = settings.policy.usesNoVarySearch ? SearchVarianceMemory(store: store) : nil
    }
}

/// The time as the cache uses it.
package struct CacheTime: Sendable {
    /// Of day, as the rules use it.
    package let wall: Timestamp
    /// Milliseconds of a clock that is never set.
    package let monotonic: Int64

    package init(wall: Timestamp, monotonic: Int64) {
        self.wall = wall
        self.monotonic = monotonic
    }
}
