// Purges the stored responses of paths that the settings exclude from the cache (`cache: off`), at the start and after a reload. Requests for
// these paths do not use the store, so nothing is served from it meanwhile.

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
        let announced = announceExclusions(of: serving)
        guard !selected.isEmpty, caches.count == serving.apis.count else {
            publish(announced)
            return then()
        }
        let names = selected.map { serving.apis[$0].name }.filter { !$0.isEmpty }
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

    private typealias AnnouncedExclusion = (selection: FleetSelection, purge: AnnouncedPurge)

    /// Announces the purges that this node has not announced yet. Other nodes may have stored responses that this node has not.
    private func announceExclusions(of serving: Serving) -> [AnnouncedExclusion] {
        guard let fleet else { return [] }
        let all = serving.apis.flatMap { api in
            api.state.routes.exclusions.map { FleetSelection($0, apis: api.name.isEmpty ? [] : [api.name]) }
        }
        return fleet.exclusions.unannounced(all).compactMap { selection in
            announcePurge(selection, isSoft: false).map { (selection, $0) }
        }
    }

    private func publish(_ announced: [AnnouncedExclusion]) {
        guard !announced.isEmpty else { return }
        let (group, sent) = (DispatchGroup(), Mutex<[FleetSelection]>([]))
        for (selection, purge) in announced {
            group.enter()
            purge.publish { reach in
                if reach != .local { sent.withLock { $0.append(selection) } }
                group.leave()
            }
        }
        group.notify(queue: .global(qos: .utility)) { [fleet, logger] in
            let sent = sent.withLock { $0 }
            fleet?.exclusions.note(sent)
            guard sent.count < announced.count else { return }
            logger.error(
                """
                the purge of routes with cache: off was not sent to other nodes: too many purges are pending; run cistern reload when \
                cistern share status shows fewer
                """)
        }
    }
}
