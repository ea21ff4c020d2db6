// Decides which responses count as upstream failures. Such a response never replaces a good stored response, and is not forwarded if one
// exists.

import HTTPCore
import JSON

/// Why a response counts as a failure if a stored response exists. The raw value is the label in metrics, logs and Cache-Status.
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
    /// An unexpected status that many other targets return at the same time (`Crowds`).
    case crowd
    /// Violations of the operator's requirements (`GoodResponse`).
    case unexpectedSize = "unexpected_size"
    case missingValue = "missing_value"
    case unwantedValue = "unwanted_value"
    case shrunk
}

public enum LastGood {
    /// Properties of the stored response with which a new response is compared.
    public struct Copy: Sendable {
        public var status: Status = 200
        public var isJSON = false
        /// JSON that violates RFC 8259.
        public var isLenient = false
        public var isCoded = false
        /// nil if unknown or irrelevant.
        public var isHTML: Bool?
        /// JSON that describes an error (RFC 9457); false if irrelevant.
        public var isProblem = false

        public init() {}

        /// - Parameters:
        ///   - head: stored head.
        ///   - response: the new response. The stored head is parsed only if this is HTML or describes an error.
        public init(_ metadata: StoredMetadata, head: Span<UInt8>, beside response: ResponseHead) {
            status = metadata.status
            (isJSON, isCoded) = (metadata.flags.contains(.isJSON), metadata.flags.contains(.coded))
            isLenient = metadata.flags.contains(.isLenient)
            guard isJSON ? response.isErrorAsSuccess : MediaType(of: response.fields)?.isHTML == true else { return }
            let type = StoredHead.parse(head).flatMap { MediaType(of: $0.fields) }
            if isJSON { isProblem = type?.isProblem ?? false } else { isHTML = type?.isHTML }
        }

        /// The best variant under a Vary marker. A marker of an older version records none; it counts as other content.
        public init(bestOf marker: Span<UInt8>) {
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
        case 429: return .rateLimited
        case let status where isTrouble(status): return .serverError
        // May be intended: queues and long polls use it for "nothing new".
        case 204, 205: return nil
        case 206 where Validation.isPartInBytes(response) == false: return nil
        case 206, 304: return .unexpectedStatus
        // An unknown coding that was not requested, and that the stored response does not have.
        case let status where status.isSuccessful && !copy.isCoded && ContentCoding(response.fields) == nil: return .undecodable
        case let status where status.isSuccessful:
            guard isOfOtherType(response, than: copy), !isFile(response) else { return nil }
            return isAccepted(response, by: request.fields) ? nil : .unexpectedType
        default: return nil
        }
    }

    /// Returns whether a successful response to a write may come from a failing gateway: its head would be a fault in response to a GET. A
    /// write has no stored response to compare with, so only HTML and descriptions of errors are unexpected types.
    /// - Parameter keepsAny: whether responses of any type are stored, so that HTML is expected.
    static func isAmbiguous(_ response: ResponseHead, to request: RequestHead, keepsAny: Bool) -> Bool {
        if response.isErrorAsSuccess { return true }
        var expected = Copy()
        // If only JSON is stored, the API is expected not to respond with HTML, unless the client accepts HTML explicitly.
        expected.isHTML = keepsAny || MediaType(of: response.fields).map { Accepting.names($0, in: request.fields) } ?? false
        return faultOfHead(response, beside: expected, to: request, strictness: .rescue) != nil
    }

    /// Returns what is unexpected about a response that its client can use; nil if nothing is. The stored response is served instead only
    /// if a gateway fails (`Crowds`).
    /// - Parameters:
    ///   - request: the client's request; its path distinguishes a redirect to another resource from one to the requested path.
    ///   - upstream: distinguishes the upstream's own URIs from those of other origins.
    public static func surprise(
        _ response: ResponseHead, beside copy: Copy, to request: RequestHead, at upstream: UpstreamOrigin? = nil, strictness: Strictness
    ) -> Surprise? {
        guard strictness == .rescue, copy.status.isSuccessful else { return nil }
        switch response.status {
        case 404: return .notFound
        case 403:
            let hasType = MediaType(of: response.fields) != nil
            return isOfOtherType(response, than: copy) || (copy.isJSON && !hasType) ? .forbidden : nil
        case 302, 303, 307: return Redirection.surprise(response, to: request, at: upstream)
        default: return nil
        }
    }

    /// Returns whether a response redirects to a login. In response to a request with credentials, it may state that the session has ended,
    /// as a 401 does. A permanent redirect states that the resource has moved.
    public static func isLogin(_ response: ResponseHead, to request: RequestHead, at upstream: UpstreamOrigin?) -> Bool {
        switch response.status {
        case 302, 303, 307: Redirection.isLogin(response, to: request, at: upstream)
        default: false
        }
    }

    /// Why a storable response does not replace this stored response; nil if it may. A good response is kept if the new one is worse. It is
    /// also kept if the new one is intended but different: the resource is gone, moved, or has another representation.
    /// - Parameter isLenient: whether the response is JSON that violates RFC 8259; false if only its head is known.
    public static func obstacle(
        _ response: ResponseHead, isLenient: Bool = false, replacing copy: Copy, strictness: Strictness
    ) -> NotStoredReason? {
        guard strictness == .rescue, copy.status.isSuccessful else { return nil }
        guard response.status.isSuccessful else { return .status }
        if response.hasNothing { return copy.hasContent ? .noContent : nil }
        // A 201 or 202 with a lifetime reports the progress of an operation, and not the content of the resource.
        if copy.status == 200 || copy.status == 203, response.status != 200, response.status != 203 { return .status }
        if isLenient, copy.isJSON, !copy.isLenient { return .invalidJSON }
        return isOfOtherType(response, than: copy) ? .contentType : nil
    }

    /// Quality of a stored response for `obstacle`, in ascending order. A Vary marker records that of its best variant.
    public enum Worth: UInt8, Sendable, Comparable {
        case noSuccess = 1
        case noContent, page, other, json
        /// Less than `json`. Written by later versions only.
        case lenientJSON

        /// - Parameter head: stored head, parsed only if the metadata is not sufficient.
        public init(_ metadata: StoredMetadata, head: Span<UInt8>) {
            if !metadata.status.isSuccessful {
                self = .noSuccess
            } else if metadata.status == 204 || metadata.status == 205 {
                self = .noContent
            } else if metadata.flags.contains(.isJSON) {
                self = metadata.flags.contains(.isLenient) ? .lenientJSON : .json
            } else {
                // A response without a media type counts like a web page, so any content may replace it.
                let type = StoredHead.parse(head).flatMap { MediaType(of: $0.fields) }
                self = type.map { $0.isHTML ? .page : .other } ?? .page
            }
        }

        public static func < (one: Self, other: Self) -> Bool { one.rank < other.rank }

        private var rank: Int { self == .json ? 7 : Int(rawValue) }
    }

    /// Returns whether the response is not JSON although the stored one is, or is a web page although the stored one is not. The
    /// description of an error with a 2xx status counts as not JSON.
    public static func isOfOtherType(_ response: ResponseHead, than copy: Copy) -> Bool {
        if copy.isJSON { return !MediaType.isJSON(response.fields, orElse: true) || response.isErrorAsSuccess && !copy.isProblem }
        return copy.isHTML == false && MediaType(of: response.fields)?.isHTML == true
    }

    /// Returns whether the client named the type in Accept: the upstream then has several representations, although Vary may not say so. A
    /// web page and the description of an error never count, because intermediaries respond with them. Plain text does not count if the
    /// client also accepts JSON, because many clients list both by default.
    private static func isAccepted(_ response: ResponseHead, by request: Fields) -> Bool {
        guard let type = MediaType(of: response.fields), !type.isHTML, !response.isErrorAsSuccess, Accepting.names(type, in: request) else {
            return false
        }
        return !type.isEssence("text/plain") || !Accepting.namesJSON(in: request)
    }

    /// Returns whether the response is a file, such as the result of a job. Login and error pages have other types.
    public static func isFile(_ response: ResponseHead) -> Bool {
        guard let type = MediaType(of: response.fields), !type.isHTML, !response.isErrorAsSuccess else { return false }
        let isAttachment = response.fields.all(named: "content-disposition").first?.prefix(10).equalsIgnoringCase("attachment") == true
        return isAttachment || type.isBinary
    }

    /// The fault of a preflight's response, which consists of its fields. Browsers do not follow redirects of preflights (Fetch §4.8).
    public static func faultOfPreflight(_ response: ResponseHead) -> UpstreamFault? {
        switch response.status {
        case 429: .rateLimited
        case let status where isTrouble(status): .serverError
        case let status where status.rawValue / 100 == 3: .redirected
        default: nil
        }
    }

    /// Returns whether the status reports a problem of the server or an exhausted quota of the client. Besides the standard ones: overload,
    /// loops and exceeded quotas (507 to 509), captive portals (511), CDN errors (520 to 530), timeouts in proxies (598, 599), and invalid
    /// statuses (RFC 9110 §15: handled as 5xx).
    public static func isTrouble(_ status: Status) -> Bool {
        switch status.rawValue {
        case 429, 500, 502...504, 507...509, 511, 520...530, 598...: true
        default: false
        }
    }

    /// The fault that the content proves, once it is complete and decoded.
    public static func faultOfContent(_ verdict: JSONVerdict, isDelimited: Bool) -> UpstreamFault? {
        switch verdict {
        // What cannot be determined is not a fault.
        case .valid, .tooDeep, .lenient: nil
        case .validScalar: isDelimited ? nil : .unprovenEnd
        case .empty: .emptyContent
        case .incomplete, .invalid: .invalidJSON
        }
    }
}

/// Media types that a request names in Accept with a weight other than 0. Types matched by a wildcard are not named.
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
    /// Whether the type is a web page.
    var isHTML: Bool { isEssence("text/html") || isEssence("application/xhtml+xml") }

    /// Whether the type is that of an image, sound, video, font, PDF document or ZIP archive.
    var isBinary: Bool {
        let types: [StaticString] = ["image", "audio", "video", "font"]
        return types.contains { type.equalsIgnoringCase($0) } || isEssence("application/pdf") || isEssence("application/zip")
    }
}

extension UpstreamFault {
    /// Whether the failure memory counts this fault. Statuses that report a problem are counted separately, by the head.
    public var isFailure: Bool {
        switch self {
        case .invalidJSON, .undecodable, .emptyContent, .unexpectedType, .unprovenEnd, .redirected: true
        case .serverError, .rateLimited, .unexpectedStatus, .crowd, .unexpectedSize, .missingValue, .unwantedValue, .shrunk: false
        }
    }

    /// Whether content that persists is accepted as intended (`Crowds`).
    public var isOfContent: Bool { self == .invalidJSON || self == .emptyContent || self == .unexpectedType }

    /// The corresponding reason why the response was not stored.
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

extension ResponseHead {
    /// Whether the response states that there is nothing to send: a 204 or 205, or a 200 with the length 0 and without a type. Frameworks
    /// send such a 200 if the application returns nothing.
    public var hasNothing: Bool {
        switch status {
        case 204, 205: true
        case 200: contentLength == 0 && !fields.contains(.contentType)
        default: false
        }
    }
}
