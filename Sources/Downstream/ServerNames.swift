// Which certificates are for the name that a client asks for (RFC 6066 §3). Pure.

public struct ServerNames: Sendable {
    private var exact: [String: [Int]] = [:]
    /// Without the star: `*.example.com` stands under `.example.com`.
    private var wildcards: [String: [Int]] = [:]
    private var names: [Set<String>] = []

    /// - Parameter names: of each certificate.
    public init(_ names: [[String]]) {
        for (place, names) in names.enumerated() {
            let names = Set(names.map { $0.lowercased() })
            self.names.append(names)
            for name in names {
                if name.hasPrefix("*.") {
                    wildcards[String(name.dropFirst()), default: []].append(place)
                } else {
                    exact[name, default: []].append(place)
                }
            }
        }
    }

    /// The certificates for a name, the first one first: those that have it, else those with a star for its first label; nil where there are none.
    public func places(of name: String) -> [Int]? {
        var name = name.lowercased()
        // The last dot says that a name is whole; certificates do not write it. Some upstreams take off more than one.
        while name.hasSuffix(".") { name.removeLast() }
        if let places = exact[name] { return places }
        guard let dot = name.firstIndex(of: "."), dot > name.startIndex else { return nil }
        return wildcards[String(name[dot...])]
    }

    public func place(of name: String) -> Int? { places(of: name)?.first }

    /// One, and others for the same names.
    public func twins(of place: Int) -> [Int] { names.indices.filter { names[$0] == names[place] } }
}
