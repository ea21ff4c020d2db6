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
    /// An unexpected status, as for many other targets at the same time (`Crowds`).
    case crowd
    /// The operator's own demands.
    case unexpectedSize = "unexpected_size"
    case missingValue = "missing_value"
    case unwantedValue = "unwanted_value"
    case shrunk
}

public enum LastGood {
    /// What a response is held against.
    public struct Copy: Sendable {
        public var status: Status = 200
        public var isJSON = false
        /// JSON that RFC 8259 refuses.
        public var isLenient = false
        public var isCoded = false
        /// nil where nobody knows, or it makes no difference.
        public var isHTML: Bool?

        public init() {}

        /// - Parameters:
        ///   - head: of what is stored.
        ///   - response: what it is to be held against: only where that is HTML the stored head is read.
        public init(_ metadata: StoredMetadata, head: UnsafeRawBufferPointer, beside response: ResponseHead) {
            status = metadata.status
            (isJSON, isCoded) = (metadata.flags.contains(.isJSON), metadata.flags.contains(.coded))
            isLenient = metadata.flags.contains(.isLenient)
            guard !isJSON, MediaType(of: response.fields)?.isHTML == true else { return }
            isHTML = StoredHead.parse(head).flatMap { MediaType(of: $0.fields) }?.isHTML
        }

        /// The best that a marker of Vary leads to; it was content, where an older version wrote none.
        public init(bestOf marker: UnsafeRawBufferPointer) {
            switch StoredMetadata.bestVariant(in: marker) ?? .other {
            case .noSuccess: status = 404
            case .noContent: status = 204
            case .page: isHTML = true
            case .other: isHTML = false
            case .lenientJSON: (isJSON, isLenient) = (true, true)
            case .json: isJSON = true
            }
        }

        fileprivate var hasContent: Bool { status != 204 && status != 205 }
    }

    /// The fault that the head alone proves; nil if the client can use the response.
    public static func faultOfHead(
        _ response: ResponseHead, beside copy: Copy, to request: RequestHead, strictness: Strictness
    ) -> UpstreamFault? {
        switch response.status {
        // RFC 9111 §4.3.3, RFC 5861 §4.
        case 500, 502, 503, 504: return .serverError
        case _ where strictness == .strict: return nil
        case let status where isServersTrouble(status): return .serverError
        case 429: return .rateLimited
        case 204, 205: return nil
        case 206, 304: return .unexpectedStatus
        // A coding that the upstream was not asked for, and has not used before.
        case let status where status.isSuccessful && !copy.isCoded && ContentCoding(response.fields) == nil: return .undecodable
        case let status where status.isSuccessful:
            return isOfOtherType(response, than: copy) && !isAskedFor(response, by: request.fields) ? .unexpectedType : nil
        default: return nil
        }
    }

    /// What is unexpected in a response that its client can use: the stored response goes out instead only where a gateway fails (`Crowds`). nil if
    /// nothing is.
    /// - Parameters:
    ///   - request: the client's: its path tells a redirect to another resource from one to the same resource.
    ///   - upstream: tells the upstream's own URIs from others'.
    public static func surprise(
        _ response: ResponseHead, beside copy: Copy, to request: RequestHead, at upstream: UpstreamOrigin? = nil, strictness: Strictness
    ) -> Surprise? {
        guard strictness == .rescue, copy.status.isSuccessful else { return nil }
        switch response.status {
        case 404: return .notFound
        case 403:
            let hasType = MediaType(of: response.fields) != nil
            return isOfOtherType(response, than: copy) || (copy.isJSON && !hasType) ? .forbidden : nil
        case 204, 205: return copy.hasContent ? .noContent : nil
        case 302, 303, 307: return Redirection.surprise(response, to: request, at: upstream)
        default: return nil
        }
    }

    /// Why a response that may be stored does not take the place of this copy: what is good is not lost to what is not. Nor is it to what is meant,
    /// but says something else than the copy: that the resource is gone, moved, or has another form too.
    /// - Parameter isLenient: whether the response is JSON that RFC 8259 refuses; where only its head is known, false.
    public static func obstacle(
        _ response: ResponseHead, isLenient: Bool = false, inPlaceOf copy: Copy, strictness: Strictness
    ) -> NotStoredReason? {
        guard strictness == .rescue, copy.status.isSuccessful else { return nil }
        guard response.status.isSuccessful else { return .status }
        if response.status == 204 || response.status == 205 { return copy.hasContent ? .noContent : nil }
        if isLenient, copy.isJSON, !copy.isLenient { return .invalidJSON }
        return isOfOtherType(response, than: copy) ? .contentType : nil
    }

    /// What counts of a copy in `obstacle`, in the order of it: a marker of Vary has that of the best of its variants.
    public enum Worth: UInt8, Sendable, Comparable {
        case noSuccess = 1
        case noContent, page, other, json
        /// Less than `json`, and written by later versions only.
        case lenientJSON

        /// - Parameter head: the stored one. Only where nothing else tells is it read.
        public init(_ metadata: StoredMetadata, head: UnsafeRawBufferPointer) {
            if !metadata.status.isSuccessful {
                self = .noSuccess
            } else if metadata.status == 204 || metadata.status == 205 {
                self = .noContent
            } else if metadata.flags.contains(.isJSON) {
                self = metadata.flags.contains(.isLenient) ? .lenientJSON : .json
            } else {
                // Beside what has no type everything is good enough that is good enough beside a page.
                let type = StoredHead.parse(head).flatMap { MediaType(of: $0.fields) }
                self = type.map { $0.isHTML ? .page : .other } ?? .page
            }
        }

        public static func < (one: Self, other: Self) -> Bool { one.rank < other.rank }

        private var rank: Int { self == .json ? 7 : Int(rawValue) }
    }

    /// Something else where JSON was, or a web page where there was none.
    public static func isOfOtherType(_ response: ResponseHead, than copy: Copy) -> Bool {
        if copy.isJSON { return !MediaType.isJSON(response.fields, orElse: true) }
        return copy.isHTML == false && MediaType(of: response.fields)?.isHTML == true
    }

    /// Whether the client has named the type: then the upstream has several forms, although it may not say so in Vary. A web page is what everything
    /// in between responds with, so it never counts; nor does plain text beside JSON, which many clients name without a thought.
    private static func isAskedFor(_ response: ResponseHead, by request: Fields) -> Bool {
        guard let type = MediaType(of: response.fields), !type.isHTML, Accepting.names(type, in: request) else { return false }
        return !type.isEssence("text/plain") || !Accepting.namesJSON(in: request)
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
        case .valid, .tooDeep, .lenient: nil
        case .validScalar: isDelimited ? nil : .unprovenEnd
        case .empty: .emptyContent
        case .invalid: .invalidJSON
        }
    }
}

/// Media types that a request names in Accept, with a weight other than 0. What a star stands for is not named.
enum Accepting {
    static func names(_ type: MediaType, in request: Fields) -> Bool {
        !type.essence.contains(UInt8(ascii: "*")) && contains(request) { $0.isEssence(type.essence) }
    }

    static func namesJSON(in request: Fields) -> Bool { contains(request, where: \.isJSON) }

    private static func contains(_ request: Fields, where fits: (MediaType) -> Bool) -> Bool {
        guard !FieldListLimit.isExceeded(by: .accept, in: request) else { return false }
        return FieldLists.contains(.accept, in: request) { member in
            guard let type = MediaType(member), fits(type) else { return false }
            return !FieldLists.members(of: member, separator: UInt8(ascii: ";")).dropFirst().contains(where: ContentCoding.isZeroWeight)
        }
    }
}

extension MediaType {
    /// A web page.
    var isHTML: Bool { isEssence("text/html") || isEssence("application/xhtml+xml") }
}

extension UpstreamFault {
    /// Whether the failure memory counts it. It counts the statuses of trouble by the head.
    public var isFailure: Bool {
        switch self {
        case .invalidJSON, .undecodable, .emptyContent, .unexpectedType, .unprovenEnd, .redirected: true
        case .serverError, .rateLimited, .unexpectedStatus, .crowd, .unexpectedSize, .missingValue, .unwantedValue, .shrunk: false
        }
    }

    /// The same, as the reason why the response was not stored.
    public var notStored: NotStoredReason {
        switch self {
        case .serverError, .rateLimited, .redirected, .unexpectedStatus, .crowd: .status
        case .invalidJSON: .invalidJSON
        case .undecodable: .undecodable
        case .emptyContent: .empty
        case .unexpectedType: .contentType
        case .unprovenEnd: .unprovenEnd
        case .unexpectedSize, .missingValue, .unwantedValue, .shrunk: .notGood
        }
    }
}
