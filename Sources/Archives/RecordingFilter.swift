// Selects the requests that are recorded.

import CachePolicy
import HTTPCore

public struct RecordingFilter: Sendable {
    private let only: [RoutePattern]
    private let except: [RoutePattern]
    private let methods: Set<[UInt8]>

    /// Selects all requests.
    public init() { (only, except, methods) = ([], [], []) }

    /// - Parameters:
    ///   - only: patterns of paths, as in routes. Empty: all paths.
    ///   - except: patterns of paths that are not recorded, also if `only` selects them.
    ///   - methods: names separated by commas. Empty: all methods.
    public init(only: [String], except: [String], methods: String) throws(ReplayRules.Mistake) {
        for (option, patterns) in [("--only", only), ("--except", except)] {
            for pattern in patterns {
                guard let mistake = RoutePattern.mistake(in: pattern) else { continue }
                throw ReplayRules.Mistake(description: "\(option) \(pattern): \(mistake)")
            }
        }
        let names = methods.isEmpty ? [] : methods.uppercased().split(separator: ",", omittingEmptySubsequences: false)
        guard names.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy(isTokenByte) }) else {
            throw ReplayRules.Mistake(description: "--methods \(methods): give names separated by commas, such as GET,POST")
        }
        self.only = only.map { RoutePattern($0) }
        self.except = except.map { RoutePattern($0) }
        self.methods = Set(names.map { Array($0.utf8) })
    }

    public func selects(_ head: RequestHead) -> Bool {
        guard methods.isEmpty || methods.contains(head.method.bytes) else { return false }
        let isOn = { (pattern: RoutePattern) in pattern.matches(head.pathAndQuery) }
        return (only.isEmpty || only.contains(where: isOn)) && !except.contains(where: isOn)
    }
}
