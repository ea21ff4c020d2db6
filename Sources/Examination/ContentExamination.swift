// What there is to find out about the content of a response that was taken whole: what it is without its coding, whether it is good, and
// the tag of its data. A value that needs nothing else, so that long content can be looked at beside the loop.

import CachePolicy
import ContentCodings
import HTTPCore
import Hashing
import JSON

public struct ContentExamination: Sendable {
    /// Content as it came.
    public struct Arrived: Sendable {
        let bytes: [UInt8]
        /// nil where it is one that cannot be taken off.
        let coding: ContentCoding?
        let isJSON: Bool
        /// Of JSON without a coding, which was checked as it came.
        let verdict: JSONVerdict
        /// Whether its end is certain.
        let isDelimited: Bool
        /// What is taken beyond RFC 8259.
        let reading: JSONReading

        public init(
            _ bytes: [UInt8], _ coding: ContentCoding?, isJSON: Bool, _ verdict: JSONVerdict, isDelimited: Bool,
            reading: JSONReading = .standard
        ) {
            (self.bytes, self.coding, self.isJSON, self.verdict, self.isDelimited) = (bytes, coding, isJSON, verdict, isDelimited)
            self.reading = reading
        }
    }

    /// What is asked of it.
    public struct Demands: Sendable {
        let good: GoodResponse
        /// Content that lacks this is passed on, and not kept.
        var kept = GoodResponse()
        /// Whether the request is one of GraphQL: then errors without data are not kept either.
        var isGraphQL = false
        /// The length of the stored copy's content, where there is one.
        let storedBytes: Int?
        /// Whether JSON gets a tag of its data.
        let makesTag: Bool
        /// The most that decoded content may be.
        let limitBytes: Int

        public init(
            _ good: GoodResponse, kept: GoodResponse = GoodResponse(), isGraphQL: Bool = false, storedBytes: Int?, makesTag: Bool,
            limitBytes: Int
        ) {
            (self.good, self.kept, self.isGraphQL) = (good, kept, isGraphQL)
            (self.storedBytes, self.makesTag, self.limitBytes) = (storedBytes, makesTag, limitBytes)
        }

        /// Whether content is looked through from end to end.
        var searchesContent: Bool { good.searchesContent || kept.searchesContent || isGraphQL }
    }

    private let arrived: Arrived
    private let demands: Demands

    public init(_ arrived: Arrived, _ demands: Demands) { (self.arrived, self.demands) = (arrived, demands) }

    public struct Findings: Sendable, Equatable {
        /// The content without its coding; nil where it has none, or none that can be taken off.
        public var decoded: [UInt8]?
        public var fault: UpstreamFault?
        /// Why it is not kept although it has no fault: nobody can tell whether it is good, or the route keeps no such content.
        public var obstacle: NotStoredReason?
        /// JSON that RFC 8259 refuses, and that readers may take.
        public var isLenient = false
        /// An entity tag, with quotes.
        public var ownTag: [UInt8]?

        /// Why it is not kept; nil where nothing speaks against that.
        public var flaw: NotStoredReason? { fault?.notStored ?? obstacle }
    }

    /// - Parameter bytes: so much content may be gone through at most; nil where there is more.
    public func findings(within bytes: Int = .max) -> Findings? {
        // Coded in a way that we cannot take off: it is passed on, and perhaps stored, as it is.
        guard let coding = arrived.coding else { return Findings(fault: arrived.isDelimited ? nil : .unprovenEnd) }
        guard coding != .identity else {
            guard !isGoneThrough || arrived.bytes.count <= bytes else { return nil }
            return judged(arrived.bytes, found(arrived.verdict))
        }
        guard arrived.bytes.count <= bytes else { return nil }
        do throws(ContentDecoder.Failure) {
            let decoded = try ContentDecoder.decode(arrived.bytes, coding, limit: min(demands.limitBytes, bytes))
            var findings = arrived.isJSON ? found(JSONTextChecker.check(decoded.span, arrived.reading)) : Findings()
            findings.decoded = decoded
            return judged(decoded, findings)
        } catch .tooLarge {
            // The upstream may well be right: what is behind the limit is not looked at.
            return bytes < demands.limitBytes ? nil : Findings(obstacle: .tooLarge)
        } catch {
            return Findings(fault: arrived.bytes.isEmpty ? .emptyContent : .undecodable)
        }
    }

    private func found(_ verdict: JSONVerdict) -> Findings {
        guard arrived.isJSON else { return Findings(fault: arrived.isDelimited ? nil : .unprovenEnd) }
        return Findings(
            fault: LastGood.faultOfContent(verdict, isDelimited: arrived.isDelimited), obstacle: verdict == .tooDeep ? .tooDeep : nil,
            isLenient: verdict == .lenient)
    }

    /// Whether content without a coding is looked at once more at its end.
    private var isGoneThrough: Bool { arrived.isJSON && (demands.makesTag || demands.searchesContent) }

    private func judged(_ plain: [UInt8], _ findings: Findings) -> Findings {
        // What looks through content recurses no deeper than the limit.
        guard findings.obstacle == nil else { return findings }
        var findings = findings
        // Nothing is looked for in content that readers take in different ways.
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

    /// A weak tag of what the data means, however it is spelt: so that clients get a 304 where nothing has changed.
    private static func tag(of json: [UInt8]) -> [UInt8]? {
        guard let canonical = CanonicalJSON.make(checked: json.span) else { return nil }
        var tag: [UInt8] = []
        tag.reserveCapacity(40)
        tag.append("W/\"")
        ContentHash.appendHex(of: canonical, to: &tag)
        tag.append(0x22)
        return tag
    }
}
