// What an upstream lets scripts of another origin read (Fetch §3.2.3): the Access-Control fields of a response. A response that we make, or that is
// older than the leave, is no use to a web app without them.

import HTTPCore

/// The upstream's leave for one origin, or for all.
public struct OriginGrant: Sendable, Equatable {
    /// The lines to send, each with CRLF.
    public let lines: [UInt8]
    /// It depends on who asks.
    public let isForOneOrigin: Bool
    /// Also with cookies and client certificates.
    public let allowsCredentials: Bool

    /// More of it is not remembered.
    private static let limitBytes = 2_048

    /// nil where the response gives none to this origin.
    /// - Parameter origin: the request's.
    public init?(_ response: Fields, to origin: ArraySlice<UInt8>) {
        // Two of them count as none.
        guard response.all(.accessControlAllowOrigin).count == 1, let allowed = response.first(.accessControlAllowOrigin) else {
            return nil
        }
        let isForAll = allowed.elementsEqual("*".utf8)
        guard isForAll || allowed.elementsEqual(origin) else { return nil }
        var lines: [UInt8] = []
        for index in 0..<response.count {
            let name = response.name(at: index)
            guard Self.isGrantField(name), !name.equalsIgnoringCase("access-control-max-age") else { continue }
            // Leave for all is none for credentials.
            if isForAll, name.equalsIgnoringCase("access-control-allow-credentials") { continue }
            lines += name
            lines.append(": ")
            lines += response.value(at: index)
            lines.append("\r\n")
        }
        guard lines.count <= Self.limitBytes else { return nil }
        self.lines = lines
        isForOneOrigin = !isForAll
        let credentials = response.all(named: "access-control-allow-credentials")
        allowsCredentials = !isForAll && credentials.count == 1 && credentials.first?.elementsEqual("true".utf8) == true
    }

    /// Whether what scripts may read of a response may depend on their origin, although it does not say so in Vary: it has leave for one origin, or
    /// none, which many an upstream sends to nobody but those that name an origin.
    public static func isBound(_ response: Fields) -> Bool {
        if let allowed = response.first(.accessControlAllowOrigin), allowed.elementsEqual("*".utf8) { return false }
        return !FieldLists.contains(.vary, in: response) { $0.equalsIgnoringCase("origin") || $0.elementsEqual("*".utf8) }
    }

    static func isGrantField(_ name: ArraySlice<UInt8>) -> Bool { name.prefix(15).equalsIgnoringCase("access-control-") }

    /// The names of such fields, in lower case.
    public static func names(in fields: Fields) -> [[UInt8]] {
        var names: [[UInt8]] = []
        for index in 0..<fields.count where isGrantField(fields.name(at: index)) {
            names.append(fields.name(at: index).map(\.asciiLowercased))
        }
        return names
    }
}

/// What the upstream last said of it to one origin.
public enum OriginWord: Sendable, Equatable {
    case leave(OriginGrant)
    case noLeave

    public init(_ response: Fields, to origin: ArraySlice<UInt8>) {
        self = OriginGrant(response, to: origin).map { .leave($0) } ?? .noLeave
    }

    public var grant: OriginGrant? { if case .leave(let grant) = self { grant } else { nil } }
}
