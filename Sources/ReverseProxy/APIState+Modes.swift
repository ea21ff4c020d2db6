// Preserves the modes of an API across a reload of the settings, or passes them to the next process.

import CachePolicy
import TakeOver

extension APIState {
    /// The modes with the names of routes and modes, which other processes understand.
    public var passedModes: PassedModes {
        PassedModes(api: name, initial: named(ModeTable(all: settings.mode, routes: routes.modes)), now: named(modes))
    }

    private func named(_ table: ModeTable) -> PassedModes.Table {
        let routes = table.routes.map { (self.routes.all[$0.key].name, $0.value.rawValue) }
        return PassedModes.Table(
            all: table.all.rawValue, routes: Dictionary(routes) { first, _ in first },
            prefixes: table.rules.map { PassedModes.Table.Prefix(prefix: $0.prefix, mode: $0.mode.rawValue) })
    }

    /// Adopts modes that were changed since the start. The mode of all paths, or of a route, is kept only if its setting is unchanged.
    public func keep(_ passed: PassedModes) {
        let (begun, now) = (passed.initial, passed.now)
        let begins = named(ModeTable(all: settings.mode, routes: routes.modes))
        _ = changeModes { modes in
            modes = ModeTable(all: settings.mode, routes: routes.modes)
            if now.all != begun.all, begins.all == begun.all, let mode = ServingMode(rawValue: now.all) {
                _ = modes.set(mode, prefix: "")
            }
            for rule in now.prefixes.reversed() {
                if let mode = ServingMode(rawValue: rule.mode) { _ = modes.set(mode, prefix: rule.prefix) }
            }
            for (index, route) in routes.all.dropLast().enumerated() where begins.routes[route.name] == begun.routes[route.name] {
                guard now.routes[route.name] != begun.routes[route.name] else { continue }
                _ = modes.set(now.routes[route.name].flatMap { ServingMode(rawValue: $0) }, route: index)
            }
            return true
        }
    }
}
