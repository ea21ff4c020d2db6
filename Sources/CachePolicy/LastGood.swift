// What counts as a failing upstream although it responded: junk never takes the place of a good copy, and with a copy it is not passed on.

import HTTPCore
import JSON

/// Why a response counts as a failure where a stored copy exists. The raw value is the label in metrics, logs and Cache-Status.
public enum UpstreamFault: String, Sendable, CaseIterable {
    case serverError = "server_error"
    case rateLimited = "rate_limited"
    case invalidJSON = "invalid_json"
    case undecodable = "undecodable"
    case emptyContent = "empty_content"
    case unexpectedType = "unexpected_type"
    case unexpectedStatus = "unexpected_status"
    case redirected = "redirected"
    case unprovenEnd = "unproven_end"
    /// A 404, as for many other targets at the same time.
    case routesLost = "routes_lost"
    /// The operator's own demands.
    case unexpectedSize = "unexpected_size"
    case missingValue = "missing_value"
    case unwantedValue = "unwanted_value"
    case shrunk
}

public enum LastGood {
    /// What the head alone tells.
    /// - Parameters:
    ///   - storedIsJSON: whether the stored copy is JSON: then something else in its place is junk.
    ///   - path: the request's path, to tell a redirect to elsewhere (a login page) from one to the same resource.
    public static func faultOfHead(
        _ response: ResponseHead, storedIsJSON: Bool, storedIsCoded: Bool = false, path: ArraySlice<UInt8>, strictness: Strictness
    ) -> UpstreamFault? {
        switch response.status {
        // RFC 9111 §4.3.3, RFC 5861 §4.
        case 500, 502, 503, 504: return .serverError
        case _ where strictness == .strict: return nil
        case let status where isServersTrouble(status): return .serverError
        case 429: return .rateLimited
        case 204, 205, 206, 304: return .unexpectedStatus
        case 302, 303, 307: return leads(response.fields.first(.location), elsewhereThan: path) ? .redirected : nil
        // A coding that the upstream was not asked for, and has not used before.
        case _ where response.status.isSuccessful && !storedIsCoded && ContentCoding(response.fields) == nil: return .undecodable
        case _ where response.status.isSuccessful && storedIsJSON:
            return MediaType.isJSON(response.fields, orElse: true) ? nil : .unexpectedType
        default: return nil
        }
    }

    /// The same for a preflight: what it says is in its fields. Browsers follow no redirect there (Fetch §4.8).
    public static func faultOfPreflight(_ response: ResponseHead) -> UpstreamFault? {
        switch response.status {
        case 429: .rateLimited
        case let status where isTrouble(status): .serverError
        case let status where status.rawValue / 100 == 3: .redirected
        default: nil
        }
    }

    /// What gateways and hosts say that are full, go in circles or are over their share (507 to 509), what a captive portal says (511), what
    /// content delivery networks say that cannot reach the origin (520 to 530), what proxies say whose own time ran out (598, 599), and what
    /// is no status (RFC 9110 §15: to be taken for a 5xx).
    public static func isServersTrouble(_ status: Status) -> Bool {
        let code = status.rawValue
        return 507...509 ~= code || code == 511 || 520...530 ~= code || code >= 598
    }

    /// Whether the status says that the server, or the client's share of it, is in trouble.
    public static func isTrouble(_ status: Status) -> Bool {
        switch status.rawValue {
        case 429, 500, 502, 503, 504: true
        default: isServersTrouble(status)
        }
    }

    /// What the content tells, once it is whole and decoded.
    public static func faultOfContent(_ verdict: JSONVerdict, isDelimited: Bool) -> UpstreamFault? {
        switch verdict {
        // What cannot be told is no fault.
        case .valid, .tooDeep: nil
        case .validScalar: isDelimited ? nil : .unprovenEnd
        case .empty: .emptyContent
        case .invalid: .invalidJSON
        }
    }

    private static func leads(_ location: ArraySlice<UInt8>?, elsewhereThan path: ArraySlice<UInt8>) -> Bool {
        guard var target = location else { return false }
        if let scheme = target.firstIndex(of: UInt8(ascii: ":")), target[scheme...].starts(with: Array("://".utf8)) {
            target = target[(scheme + 3)...]
            target = target[(target.firstIndex(of: UInt8(ascii: "/")) ?? target.endIndex)...]
        }
        let isMark: (UInt8) -> Bool = { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }
        return !target.prefix { !isMark($0) }.elementsEqual(path.prefix { !isMark($0) })
    }
}

extension UpstreamFault {
    /// Whether what came is no response of the application at all: that tells of the upstream. A redirect to a login page, or values that the
    /// operator does not want, may be one user's.
    public var isJunk: Bool {
        switch self {
        case .invalidJSON, .undecodable, .emptyContent, .unexpectedType, .unprovenEnd: true
        case .serverError, .rateLimited, .unexpectedStatus, .routesLost, .redirected, .unexpectedSize, .missingValue, .unwantedValue,
            .shrunk:
            false
        }
    }

    /// The same, as the reason why the response was not stored.
    public var notStored: NotStoredReason {
        switch self {
        case .serverError, .rateLimited, .redirected, .unexpectedStatus, .routesLost: .status
        case .invalidJSON: .invalidJSON
        case .undecodable: .undecodable
        case .emptyContent: .empty
        case .unexpectedType: .contentType
        case .unprovenEnd: .unprovenEnd
        case .unexpectedSize, .missingValue, .unwantedValue, .shrunk: .notGood
        }
    }
}
