// Examines the content of a response that was read whole: decodes it, judges whether it is good, and computes the entity tag of its data. A
// self-contained value, so that long content can be examined off the event loop.

import CachePolicy
import ContentCodings
import HTTPCore
import JSON

public struct ContentExamination: Sendable {
    /// Content as received.
    public struct Arrived: Sendable {
        let bytes: [UInt8]
        /// `identity` if there is no coding; nil for a coding that cannot be decoded.
        let coding: ContentCoding?
        let isJSON: Bool
        /// Verdict on JSON without a coding; nil if it was not checked while it arrived.
        let verdict: JSONVerdict?
        /// Whether the framing proves that the content is complete.
        let isDelimited: Bool
        /// Which JSON beyond RFC 8259 is accepted.
        let reading: JSONReading

        public init(
            _ bytes: [UInt8], _ coding: ContentCoding?, isJSON: Bool, _ verdict: JSONVerdict?, isDelimited: Bool,
            reading: JSONReading = .standard
        ) {
            (self.bytes, self.coding, self.isJSON, self.verdict, self.isDelimited) = (bytes, coding, isJSON, verdict, isDelimited)
            self.reading = reading
        }
    }

    /// Requirements on the content.
    public struct Demands: Sendable {
        let good: GoodResponse
        /// Requirements for storing. Content that does not meet them is forwarded and not stored.
        var kept = GoodResponse()
        /// Whether the request is a GraphQL request. Then a response with errors and without data is not stored.
        var isGraphQL = false
        /// Content length of the stored response, in bytes; nil if there is none.
        let storedBytes: Int?
        /// Whether JSON gets an entity tag computed from its data.
        let makesTag: Bool
        /// Maximum length of decoded content, in bytes.
        let limitBytes: Int

        public init(
            _ good: GoodResponse, kept: GoodResponse = GoodResponse(), isGraphQL: Bool = false, storedBytes: Int?, makesTag: Bool,
            limitBytes: Int
        ) {
            (self.good, self.kept, self.isGraphQL) = (good, kept, isGraphQL)
            (self.storedBytes, self.makesTag, self.limitBytes) = (storedBytes, makesTag, limitBytes)
        }

        /// Whether the requirements search the whole content.
        var searchesContent: Bool { good.searchesContent || kept.searchesContent || isGraphQL }
    }

    private let arrived: Arrived
    private let demands: Demands

    public init(_ arrived: Arrived, _ demands: Demands) { (self.arrived, self.demands) = (arrived, demands) }

    public struct Findings: Sendable, Equatable {
        /// The content without its coding; nil if it has no coding, or one that cannot be decoded.
        public var decoded: [UInt8]?
        public var fault: UpstreamFault?
        /// Why content without a fault is not stored: it cannot be judged, or the route excludes such content.
        public var obstacle: NotStoredReason?
        /// Whether the content is JSON that RFC 8259 rejects but that lenient parsers may accept.
        public var isLenient = false
        /// Whether content with a fault was cut off: its JSON ends early, or its coding cannot be decoded.
        public var isCut = false
        /// Entity tag, with quotes.
        public var ownTag: [UInt8]?

        /// Why the response is not stored; nil if the content permits it.
        public var flaw: NotStoredReason? { fault?.notStored ?? obstacle }
    }

    /// - Parameter bytes: maximum number of bytes to examine.
    /// - Returns: nil if there are more bytes to examine.
    public func findings(within bytes: Int = .max) -> Findings? {
        // The coding cannot be decoded: the content is forwarded, and perhaps stored, as received.
        guard let coding = arrived.coding else { return Findings(fault: arrived.isDelimited ? nil : .unprovenEnd) }
        guard coding != .identity else {
            guard !isGoneThrough || arrived.bytes.count <= bytes else { return nil }
            return judged(arrived.bytes, found(arrived.verdict ?? JSONTextChecker.check(arrived.bytes.span, arrived.reading)))
        }
        guard arrived.bytes.count <= bytes else { return nil }
        do throws(ContentDecoder.Failure) {
            let decoded = try ContentDecoder.decode(arrived.bytes, coding, limit: min(demands.limitBytes, bytes))
            var findings = arrived.isJSON ? found(JSONTextChecker.check(decoded.span, arrived.reading)) : Findings()
            findings.decoded = decoded
            return judged(decoded, findings)
        } catch .tooLarge {
            // This is not a fault of the upstream: content beyond the limit is not examined.
            return bytes < demands.limitBytes ? nil : Findings(obstacle: .tooLarge)
        } catch {
            return Findings(fault: arrived.bytes.isEmpty ? .emptyContent : .undecodable, isCut: true)
        }
    }

    private func found(_ makeVerdict: @autoclosure () -> JSONVerdict) -> Findings {
        guard arrived.isJSON else { return Findings(fault: arrived.isDelimited ? nil : .unprovenEnd) }
        let verdict = makeVerdict()
        return Findings(
            fault: LastGood.faultOfContent(verdict, isDelimited: arrived.isDelimited), obstacle: verdict == .tooDeep ? .tooDeep : nil,
            isLenient: verdict == .lenient, isCut: verdict == .incomplete)
    }

    /// Whether content without a coding is examined again once it is complete.
    private var isGoneThrough: Bool { arrived.isJSON && (demands.makesTag || demands.searchesContent || arrived.verdict == nil) }

    private func judged(_ plain: [UInt8], _ findings: Findings) -> Findings {
        // Content nested deeper than the limit is not searched, because the search is recursive.
        guard findings.obstacle == nil else { return findings }
        var findings = findings
        // Lenient JSON is not searched, because parsers read it in different ways.
        let isJSON = arrived.isJSON && !findings.isLenient
        func fault(_ demands: GoodResponse) -> UpstreamFault? {
            demands.faultOfContent(plain.span, isJSON: isJSON, storedBytes: self.demands.storedBytes)
        }
        findings.fault = findings.fault ?? fault(demands.good)
        guard findings.fault == nil else { return findings }
        if fault(demands.kept) != nil {
            findings.obstacle = .notKept
        } else if isJSON, demands.isGraphQL, GraphQLResponse.isError(plain.span) {
            findings.obstacle = .graphQLError
        }
        if demands.makesTag, isJSON { findings.ownTag = Self.tag(of: plain) }
        return findings
    }

    /// Weak entity tag of the canonical JSON. Clients get a 304 if only the spelling has changed.
    private static func tag(of json: [UInt8]) -> [UInt8]? {
        CanonicalJSON.form(ofChecked: json.span) { canonical in
            var tag: [UInt8] = []
            tag.reserveCapacity(40)
            tag.append("W/\"")
            ContentHash.appendHex(of: canonical, to: &tag)
            tag.append(0x22)
            return tag
        }
    }
}
