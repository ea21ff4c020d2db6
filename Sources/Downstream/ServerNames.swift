// Selects certificates by the server name that a client requests (RFC 6066 §3). Pure.

public struct ServerNames: Sendable {
    private var exact: [String: [Int]] = [:]
    /// Wildcard names without the asterisk: `*.example.com` has the key `.example.com`.
    private var wildcards: [String: [Int]] = [:]
    private var names: [Set<String>] = []

    /// - Parameter names: the names of each certificate.
    public init(_ names: [[String]]) {
        for (index, names) in names.enumerated() {
            let names = Set(names.map { $0.lowercased() })
            self.names.append(names)
            for name in names {
                if name.hasPrefix("*.") {
                    wildcards[String(name.dropFirst()), default: []].append(index)
                } else {
                    exact[name, default: []].append(index)
                }
            }
        }
    }

    /// Returns the indices of the certificates for a name, in order; nil if there are none. Certificates with a wildcard for the first
    /// label are used only if none has the exact name.
    public func indices(of name: String) -> [Int]? {
        var name = name.lowercased()
        // A trailing dot marks an absolute name; certificates do not contain it. More than one dot is removed, as some upstreams do.
        while name.hasSuffix(".") { name.removeLast() }
        if let indices = exact[name] { return indices }
        guard let dot = name.firstIndex(of: "."), dot > name.startIndex else { return nil }
        return wildcards[String(name[dot...])]
    }

    public func index(of name: String) -> Int? { indices(of: name)?.first }

    /// Returns the indices of all certificates with equal names, including this one.
    public func twins(of index: Int) -> [Int] { names.indices.filter { names[$0] == names[index] } }
}
