// Models of how servers read a request's path, according to their sources or manuals. Independent of `PathReadings`, which is tested with
// them.

/// A server, or a proxy with a server behind it.
struct ServerModel: Sendable {
    let name: String
    /// The segments of the path that the server serves, percent-decoded; nil if it refuses the request.
    let read: @Sendable (String) -> [String]?

    static let all: [ServerModel] = single + pairs + lenient

    static let single: [ServerModel] = [
        ServerModel(name: "express") { path in segments(path).map(decoded) },
        // WHATWG URL: a backslash is a slash, and an encoded dot is a dot. Other characters are unchanged.
        ServerModel(name: "node") { path in
            resolved(segments(dotsDecoded(path.replacing("\\", with: "/")))).map { $0.map(decoded) }
        },
        // A reference to a base URL: two slashes begin an authority.
        ServerModel(name: "node with a base") { path in
            let path = dotsDecoded(path.replacing("\\", with: "/"))
            let rest = path.hasPrefix("//") ? String(path.drop { $0 == "/" }.drop { $0 != "/" }) : path
            return resolved(segments(rest.isEmpty ? "/" : rest)).map { $0.map(decoded) }
        },
        ServerModel(name: "python with urlsplit") { path in
            segments(path.hasPrefix("//") ? "/" + path.dropFirst(2).drop { $0 != "/" }.dropFirst() : path).map(decoded)
        },
        ServerModel(name: "nginx") { path in merged(decoded(path)).flatMap { resolved(segments($0)) } },
        ServerModel(name: "nginx, merge_slashes off") { path in resolved(segments(decoded(path))) },
        ServerModel(name: "lighttpd") { path in
            resolved(segments(decoded(path, only: ["/", "."]))).flatMap { merged(decoded("/" + $0.joined(separator: "/"))) }
                .flatMap { resolved(segments($0)) }
        },
        ServerModel(name: "lighttpd, url-path-2f-decode off") { path in
            resolved(segments(path)).map { $0.map(decoded) }
        },
        ServerModel(name: "tomcat") { path in
            merged(decoded(withoutParameters(path)).replacing("\\", with: "/")).flatMap { resolved(segments($0)) }
        },
        ServerModel(name: "tomcat, solidus passed through, no backslashes") { path in
            resolved(segments(collapsed(withoutParameters(path)))).map { $0.map(decoded) }
        },
        ServerModel(name: "jetty") { path in resolved(segments(dotsDecoded(withoutParameters(path)))).map { $0.map(decoded) } },
        ServerModel(name: "iis") { path in
            merged(decoded(path).replacing("\\", with: "/")).flatMap { resolved(segments($0)) }
        },
        // net/http: a final slash remains, and a final dot segment leaves none.
        ServerModel(name: "go") { path in
            let whole = decoded(path)
            guard let read = resolved(segments(collapsed(whole))) else { return nil }
            return !whole.hasSuffix("/") && read.last == "" && read.count > 1 ? read.dropLast() : read
        },
        ServerModel(name: "wsgi") { path in segments(decoded(path)) },
        ServerModel(name: "spring with encoded path parameters") { path in
            resolved(segments(collapsed(withoutParameters(decoded(path)))))
        },
    ]

    /// nginx passes its normalized path on, encoded again, as `proxy_pass` with a path does.
    static let pairs: [ServerModel] = ["tomcat", "jetty", "iis", "wsgi"].flatMap { behind in
        ["nginx", "nginx, merge_slashes off"].compactMap { front -> ServerModel? in
            guard let first = single.first(where: { $0.name == front }), let second = single.first(where: { $0.name == behind }) else {
                return nil
            }
            return ServerModel(name: "\(behind) behind \(front)") { path in
                first.read(path).flatMap { second.read("/" + $0.map(encoded).joined(separator: "/")) }
            }
        }
    }

    /// Servers that decode more than RFC 3986 defines, or twice.
    static let lenient: [ServerModel] = [
        ServerModel(name: "decoding twice") { path in resolved(segments(collapsed(decoded(decoded(path))))) },
        ServerModel(name: "decoding before a gateway, and again") { path in
            resolved(segments(decoded(path))).flatMap { resolved(segments(decoded("/" + $0.joined(separator: "/")))) }
        },
        ServerModel(name: "decoding three times") { path in resolved(segments(decoded(decoded(decoded(path))))) },
        ServerModel(name: "overlong UTF-8") { path in
            resolved(segments(decoded(path.replacing("%c0%af", with: "/").replacing("%e0%80%af", with: "/"))))
        },
        ServerModel(name: "%u") { path in resolved(segments(decoded(path.replacing("%u00", with: "%")))) },
        ServerModel(name: "without control characters") { path in
            resolved(segments(decoded(path).filter { $0 >= " " && $0 != "\u{7f}" }))
        },
    ]

    // MARK: Steps

    private static func segments(_ path: String) -> [String] {
        path.dropFirst().split(separator: "/", omittingEmptySubsequences: false).map(String.init)
    }

    /// - Parameter only: characters to decode; empty for all.
    private static func decoded(_ text: String, only: [Character] = []) -> String {
        var out = ""
        var rest = Substring(text)
        while let next = rest.popFirst() {
            if next == "%", let value = UInt8(rest.prefix(2), radix: 16), rest.prefix(2).allSatisfy(\.isHexDigit), rest.count >= 2 {
                let character = Character(UnicodeScalar(value))
                if only.isEmpty || only.contains(character) {
                    out.append(character)
                    rest = rest.dropFirst(2)
                    continue
                }
            }
            out.append(next)
        }
        return out
    }

    private static func decoded(_ text: String) -> String { decoded(text, only: []) }

    private static func dotsDecoded(_ text: String) -> String { decoded(text, only: ["."]) }

    private static func encoded(_ text: String) -> String {
        text.map { "%?#".contains($0) || $0 < " " ? "%" + hex($0) : String($0) }.joined()
    }

    private static func hex(_ character: Character) -> String {
        let value = character.asciiValue ?? 0
        return (value < 16 ? "0" : "") + String(value, radix: 16)
    }

    private static func withoutParameters(_ path: String) -> String {
        path.split(separator: "/", omittingEmptySubsequences: false).map { $0.prefix { $0 != ";" } }.joined(separator: "/")
    }

    private static func collapsed(_ path: String) -> String {
        path.reduce(into: "") { out, next in if next != "/" || out.last != "/" { out.append(next) } }
    }

    private static func merged(_ path: String) -> String? { path.contains("\0") ? nil : collapsed(path) }

    /// nil if the path leads above the root, which these servers reject.
    private static func resolved(_ segments: [String]) -> [String]? {
        var kept: [String] = []
        for (index, segment) in segments.enumerated() {
            let isLast = index == segments.count - 1
            switch segment {
            case ".": if isLast { kept.append("") }
            case "..":
                guard kept.popLast() != nil else { return nil }
                if isLast { kept.append("") }
            default: kept.append(segment)
            }
        }
        return kept
    }
}
