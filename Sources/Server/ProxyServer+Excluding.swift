// Purges the stored responses of paths that the settings exclude from the cache (`cache: off`), at the start and after a reload. Requests for
// these paths do not use the store, so nothing is served from it meanwhile.

import CachePolicy
import Dispatch
import Logging
import Reactor
import ResponseCache
import ReverseProxy
import Sharing

extension ProxyServer {
    /// Purges the stored responses of excluded paths.
    /// - Parameters:
    ///   - former: what was served before a reload. APIs with equal exclusions are skipped. nil at the start: all APIs are searched.
    ///   - then: called from any thread when the purge is on the disk.
    func purgeExcluded(after former: Serving? = nil, then: @escaping @Sendable () -> Void = {}) {
        let serving = serving
        let selected = serving.apis.indices.filter { index in
            let api = serving.apis[index]
            let before = former?.apis.first { $0.name == api.name }?.state.routes.exclusions
            return !api.state.routes.exclusions.isEmpty && api.state.routes.exclusions != before
        }
        let caches = serving.apis.compactMap { api in
            api.state.cache.map { ResponseCache($0, mayWait: true) { [unowned self] in cacheTime } }
        }
        guard !selected.isEmpty, caches.count == serving.apis.count else { return then() }
        let names = selected.map { serving.apis[$0].name }.filter { !$0.isEmpty }
        let selections = selected.flatMap { index in
            serving.apis[index].state.routes.exclusions.map { exclusion in
                FleetSelection(exclusion.criteria, apis: serving.apis[index].name.isEmpty ? [] : [serving.apis[index].name])
            }
        }
        // Other nodes may have stored responses that this node has not.
        let announced = selections.compactMap { announcePurge($0, isSoft: false) }
        guard caches[0].canPurge else {
            logger.warning("responses stored for routes with cache: off cannot be purged, because the cache directory is not writable")
            publish(announced)
            return then()
        }
        caches[0].beginPurge(at: cacheTime.wall)
        let group = CacheGroup(caches, meaning: selected, named: names)
        let wanted = caches.map { $0.excludedPaths }
        afterEachLoop { [self] in
            DispatchQueue.global(qos: .utility).async { [self] in
                let found = group.purge(excluded: wanted)
                if found > 0 { logger.notice("purged \(found) records stored for routes with cache: off") }
                publish(announced)
                then()
            }
        }
    }

    private func publish(_ purges: [any AnnouncedPurge]) {
        for purge in purges {
            purge.publish { [logger] reach in
                guard case .local = reach else { return }
                logger.error("other nodes do not know of the purge of routes with cache: off: too many purges are pending")
            }
        }
    }
}
