// What there is to find out about the content of a response that was taken whole: what it is without its coding, whether it is good, and
// the tag of its data. A value that needs nothing else, so that long content can be looked at beside the loop.

import CachePolicy
import CacheStore
import ContentCodings
import HTTPCore
import JSON

struct ContentExamination: Sendable {
    /// As it came.
    let content: [UInt8]
    /// nil where it is one that cannot be taken off.
    let coding: ContentCoding?
    let isJSON: Bool
    /// Of JSON without a coding, which was checked as it came.
    let verdict: JSONVerdict
    /// Whether its end is certain.
    let isDelimited: Bool
    let good: GoodResponse
    /// The length of the stored copy's content, where there is one.
    let storedBytes: Int?
    /// Whether JSON gets a tag of its data.
    let makesTag: Bool
    /// The most that decoded content may be.
    let limitBytes: Int

    struct Findings: Sendable, Equatable {
        /// The content without its coding; nil where it has none, or none that can be taken off.
        var decoded: [UInt8]?
        var fault: UpstreamFault?
        /// An entity tag, with quotes.
        var ownTag: [UInt8]?
    }

    /// - Parameter bytes: so much content may be gone through at most; nil where there is more.
    func findings(within bytes: Int = .max) -> Findings? {
        // Coded in a way that we cannot take off: it is passed on, and perhaps stored, as it is.
        guard let coding else { return Findings(fault: isDelimited ? nil : .unprovenEnd) }
        guard coding != .identity else {
            guard !isGoneThrough || content.count <= bytes else { return nil }
            let fault: UpstreamFault? =
                if isJSON {
                    LastGood.faultOfContent(verdict, isDelimited: isDelimited)
                } else {
                    isDelimited ? nil : .unprovenEnd
                }
            return judged(content, Findings(fault: fault))
        }
        guard content.count <= bytes else { return nil }
        do throws(ContentDecoder.Failure) {
            let decoded = try ContentDecoder.decode(content, coding, limit: min(limitBytes, bytes))
            let fault = isJSON ? LastGood.faultOfContent(JSONTextChecker.check(decoded.span), isDelimited: isDelimited) : nil
            return judged(decoded, Findings(decoded: decoded, fault: fault))
        } catch {
            if error == .tooLarge, bytes < limitBytes { return nil }
            return Findings(fault: content.isEmpty ? .emptyContent : .undecodable)
        }
    }

    /// Whether content without a coding is looked at once more at its end.
    private var isGoneThrough: Bool { isJSON && (makesTag || good.searchesContent) }

    private func judged(_ plain: [UInt8], _ findings: Findings) -> Findings {
        var findings = findings
        findings.fault = findings.fault ?? good.faultOfContent(plain.span, isJSON: isJSON, storedBytes: storedBytes)
        if makesTag, isJSON, findings.fault == nil { findings.ownTag = Self.tag(of: plain) }
        return findings
    }

    /// A weak tag of what the data means, however it is spelt: so that clients get a 304 where nothing has changed.
    private static func tag(of json: [UInt8]) -> [UInt8]? {
        CanonicalJSON.make(checked: json.span).map { Array("W/\"".utf8) + ContentHash.hex(of: $0) + [0x22] }
    }
}
