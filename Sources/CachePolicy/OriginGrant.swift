// The Access-Control fields of a response: which origins' scripts may read it (Fetch §3.2.3). A response that Cistern generates, or that is
// older than the permission, is useless to a web app without them.

import HTTPCore

/// The upstream's permission for one origin, or for all origins.
public struct OriginGrant: Sendable, Equatable {
    /// The field lines to send, each with CRLF.
    public let lines: [UInt8]
    /// The permission depends on the request's Origin.
    public let isForOneOrigin: Bool
    /// The permission includes requests with cookies and client certificates.
    public let allowsCredentials: Bool

    /// Maximum size of the lines; a larger permission is not stored.
    private static let limitBytes = 2_048

    /// nil if the response gives this origin no permission.
    /// - Parameter origin: the request's origin.
    public init?(_ response: Fields, to origin: ArraySlice<UInt8>) {
        // Two Access-Control-Allow-Origin fields count as none.
        guard response.all(.accessControlAllowOrigin).count == 1, let allowed = response.first(.accessControlAllowOrigin) else {
            return nil
        }
        let isForAll = allowed.elementsEqual("*".utf8)
        guard isForAll || allowed.elementsEqual(origin) else { return nil }
        var lines: [UInt8] = []
        for index in 0..<response.count {
            let name = response.name(at: index)
            guard Self.isGrantField(name), !name.equalsIgnoringCase("access-control-max-age") else { continue }
            // A permission for all origins does not include credentials.
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

    /// Returns whether the permission may depend on the origin although Vary does not list Origin. It names one origin, or it is absent:
    /// many upstreams send it only to requests with an Origin field.
    public static func isBound(_ response: Fields) -> Bool {
        if let allowed = response.first(.accessControlAllowOrigin), allowed.elementsEqual("*".utf8) { return false }
        return !FieldLists.contains(.vary, in: response) { $0.equalsIgnoringCase("origin") || $0.elementsEqual("*".utf8) }
    }

    static func isGrantField(_ name: ArraySlice<UInt8>) -> Bool { name.prefix(15).equalsIgnoringCase("access-control-") }
}

/// The upstream's last decision about one origin.
public enum OriginDecision: Sendable, Equatable {
    case granted(OriginGrant)
    case notGranted

    public init(_ response: Fields, to origin: ArraySlice<UInt8>) {
        self = OriginGrant(response, to: origin).map { .granted($0) } ?? .notGranted
    }

    public var grant: OriginGrant? { if case .granted(let grant) = self { grant } else { nil } }
}
