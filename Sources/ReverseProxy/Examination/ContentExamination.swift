// Examines the content of a response that was read whole: decodes it, judges whether it is good, and computes the entity tag of its data.
// `ContentExamination` is a self-contained value, so that long content can be examined off the event loop.

import CachePolicy
import ContentCodings
import Decisions
import Figures
import Forwarding
import HTTPCore
import JSON
import Reactor
import ResponseCache
import Upstream

extension Fetch {
    /// Examines collected content; long content is examined off the event loop.
    func examine(_ purpose: CollectedFor, isDelimited: Bool) -> FetchMachine.Event? {
        guard let response else { return nil }
        let (bytes, atOnceBytes) = (collected.bytes, context.rules.examinedAtOnceBytes)
        let comparison = isDelimited ? comparison : nil
        if bytes.count <= atOnceBytes, let comparison, comparison.isExpected, let tag = comparison.tag(for: comparison.hash(of: bytes)) {
            if repetition == .head { repetition = .content }
            return .examined(decide(purpose, by: ContentExamination.Findings(ownTag: tag)))
        }
        let hasContent = !response.status.forbidsContent
        var arrived = ContentExamination.Arrived(
            bytes, hasContent ? ContentCoding(response.fields) : nil, isJSON: isJSON(response), collected.verdict(),
            isDelimited: isDelimited || !hasContent, reading: context.rules.reading)
        arrived.extendsASCII = MediaType.extendsASCII(response.fields)
        let examination = ContentExamination(
            arrived,
            ContentExamination.Demands(
                good, kept: kept, isGraphQL: subject.isGraphQL,
                storedBytes: subject.found?.contentBytes,
                makesTag: purpose == .store && context.rules.makesTag(for: response),
                limitBytes: context.rules.bufferLimitBytes))
        if let findings = examination.findings(within: atOnceBytes) {
            noteExamined(findings, comparison?.hash(of: bytes))
            return .examined(decide(purpose, by: findings))
        }
        context.reporting.count(.examinedOffLoop)
        context.examiner.worker.perform(bytes.count) {
            let hash = comparison?.hash(of: bytes)
            if let hash, let tag = comparison?.tag(for: hash) { return (ContentExamination.Findings(ownTag: tag), nil) }
            return (examination.findings(), hash)
        } then: { (findings: ContentExamination.Findings?, hash: (UInt64, UInt64)?) in
            guard let findings else { return }
            self.noteExamined(findings, hash)
            self.handle(.examined(self.decide(purpose, by: findings)))
        }
        return nil
    }

    /// The entity tag computed for the stored response; nil if its tag comes from the upstream.
    var ownTagOfFound: [UInt8]? {
        guard let found = subject.found, found.metadata.flags.contains(.ownTag) else { return nil }
        return found.withHead { Array(copying: $0.extracting(found.metadata.etag)) }
    }

    func comparison(with response: ResponseHead) -> ContentComparison? {
        guard let found = subject.found,
            repetition == .head || isJSON(response) && ContentCoding(response.fields) == .identity && context.rules.makesTag(for: response)
        else { return nil }
        return context.examiner.comparison(with: found.contentNumber, tag: ownTagOfFound)
    }

    /// Remembers content that has the data of the stored response.
    /// - Parameter hash: evaluated only for such content; nil if the content is not remembered.
    func noteExamined(_ findings: ContentExamination.Findings, _ hash: @autoclosure () -> (UInt64, UInt64)?) {
        guard let found = subject.found, findings.flaw == nil, !findings.isLenient, findings.decoded == nil, let tag = findings.ownTag,
            tag == ownTagOfFound, let hash = hash()
        else { return }
        context.examiner.note(hash, as: found.contentNumber)
    }

    func decide(_ purpose: CollectedFor, by findings: ContentExamination.Findings) -> WholeDecision {
        collected.findings = findings
        // After a client's own write, an empty response is intended.
        let isWanted =
            if let fault = findings.fault, subject.mayRescue {
                fault == .emptyContent && hasSeen(.afterOwnWrite) || fault.isOfContent && hasSeen(.lasting)
            } else {
                false
            }
        return purpose.decide(
            findings.fault, obstacle: findings.obstacle ?? obstacle(of: findings),
            mayFail: forwarded == nil ? subject.mayRescue && !isWanted : findings.isCut, context.rules.strictness)
    }

    /// JSON that RFC 8259 rejects never replaces a stored response with valid JSON.
    func obstacle(of findings: ContentExamination.Findings) -> NotStoredReason? {
        guard findings.isLenient, let response, let found = subject.found else { return nil }
        let copy = found.withHead { LastGood.Copy(found.metadata, head: $0, beside: response) }
        return LastGood.obstacle(response, isLenient: true, replacing: copy, strictness: context.rules.strictness)
    }
}

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
        /// Whether bytes that look like ASCII are ASCII characters.
        var extendsASCII = true

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
        /// Whether content with a fault was cut off: its JSON ends early or its coding cannot be decoded, and its framing does not prove
        /// that it is complete.
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
            // Content that was checked while it arrived is examined again only for the requirements and the entity tag.
            let isGoneThrough = arrived.isJSON && (demands.makesTag || demands.searchesContent || arrived.verdict == nil)
            guard !isGoneThrough || arrived.bytes.count <= bytes else { return nil }
            return judged(arrived.bytes, arrived.verdict, isProven: arrived.isDelimited)
        }
        guard arrived.bytes.count <= bytes else { return nil }
        do throws(ContentDecoder.Failure) {
            let decoded = try ContentDecoder.decode(arrived.bytes, coding, limit: min(demands.limitBytes, bytes))
            var findings = judged(decoded, nil, isProven: true)
            findings.decoded = decoded
            return findings
        } catch .tooLarge {
            // This is not a fault of the upstream: content beyond the limit is not examined.
            return bytes < demands.limitBytes ? nil : Findings(obstacle: .tooLarge)
        } catch {
            return Findings(fault: arrived.bytes.isEmpty ? .emptyContent : .undecodable, isCut: !arrived.isDelimited)
        }
    }

    /// - Parameters:
    ///   - verdict: nil if JSON must still be checked.
    ///   - isProven: whether the framing or the coding proves that content other than JSON is complete.
    private func judged(_ plain: [UInt8], _ verdict: JSONVerdict?, isProven: Bool) -> Findings {
        var findings = Findings(fault: isProven ? nil : .unprovenEnd)
        if arrived.isJSON {
            var verdict = verdict ?? JSONTextChecker.check(plain.span, arrived.reading)
            if !arrived.extendsASCII, isProven, verdict == .invalid || verdict == .incomplete { verdict = .lenient }
            findings = Findings(
                fault: LastGood.faultOfContent(verdict, isDelimited: arrived.isDelimited), obstacle: verdict == .tooDeep ? .tooDeep : nil,
                isLenient: verdict == .lenient, isCut: verdict == .incomplete && !arrived.isDelimited)
        }
        // Content nested deeper than the limit is not searched, because the search is recursive.
        guard findings.obstacle == nil else { return findings }
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
        // A weak entity tag of the canonical JSON: clients get a 304 if only the spelling has changed.
        if demands.makesTag, isJSON { findings.ownTag = CanonicalJSON.digest(ofChecked: plain.span) { EntityTag.own(of: $0) } }
        return findings
    }
}
