// Which certificate a client gets: by the name that it asks for (RFC 6066 §3). Pure.

package struct ServerNames: Sendable {
    private var exact: [String: Int] = [:]
    /// Without the star: `*.example.com` stands under `.example.com`.
    private var wildcards: [String: Int] = [:]

    /// - Parameter names: of each certificate. Where two have the same name, the first counts.
    package init(_ names: [[String]]) {
        for (place, names) in names.enumerated() {
            for name in names.map({ $0.lowercased() }) {
                if name.hasPrefix("*.") {
                    if wildcards[String(name.dropFirst())] == nil { wildcards[String(name.dropFirst())] = place }
                } else if exact[name] == nil {
                    exact[name] = place
                }
            }
        }
    }

    /// The certificate for a name: one that has it, then one with a star for its first label; nil where there is none.
    package func place(of name: String) -> Int? {
        var name = name.lowercased()
        // The last dot says that a name is whole; certificates do not write it. Some upstreams take off more than one.
        while name.hasSuffix(".") { name.removeLast() }
        if let place = exact[name] { return place }
        guard let dot = name.firstIndex(of: "."), dot > name.startIndex else { return nil }
        return wildcards[String(name[dot...])]
    }
}
