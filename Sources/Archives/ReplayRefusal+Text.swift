// Texts for requests without a recorded response: a sentence, and problem details with it (RFC 9457).

import HTTPCore
import JSON

extension Replay {
    /// One or two sentences.
    /// - Parameter difference: result of `difference`.
    public func sentence(_ refusal: ReplayRefusal, to request: ReplayRequest, _ difference: ReplayDifference?) -> String {
        switch refusal {
        case .otherContent(let nearest):
            "\(request.shown) was recorded, but with other content. \(difference.map(Self.sentence) ?? "")\(sentence(nearest))"
        case .otherVariant(let nearest):
            "\(request.shown) was recorded, but with other values of the fields that Vary names. \(sentence(nearest))"
        case .notRecorded(let nearest): "\(request.shown) was not recorded. \(sentence(nearest))"
        case .usedUp(let count):
            "\(request.shown) was recorded \(count == 1 ? "once" : "\(count) times"), and all recorded responses have been served."
        case .outOfOrder(let next):
            "In strict order the next request must be \(self.request(next).shown), number \(next + 1) of \(self.count), not \(request.shown)."
        case .atEnd: "All \(self.count) recorded requests have been received already; \(request.shown) is an additional one."
        }
    }

    /// A sentence with a space, or an empty text.
    private static func sentence(_ difference: ReplayDifference) -> String {
        difference.shownPointer.map { "It differs at \($0). " } ?? ""
    }

    private func sentence(_ nearest: [Int]) -> String {
        let shown = nearest.map { request($0).shown }
        switch shown.count {
        case 0: return "The recording contains no request."
        case 1: return "The most similar recorded request is \(shown[0])."
        default: return "The most similar recorded requests are \(shown.dropLast().joined(separator: ", ")) and \(shown[shown.count - 1])."
        }
    }

    /// - Parameters:
    ///   - status: status of the response.
    ///   - sentence: text for people.
    public func problem(_ refusal: ReplayRefusal, status: Status, _ sentence: String) -> [UInt8] {
        let nearest = refusal.nearest.map { JSONValue.object(request($0).members) }
        let problem: JSONValue = [
            "type": "about:blank", "title": "Not Found", "status": .integer(Int(status.rawValue)),
            "detail": .string(sentence), "nearest": .array(nearest),
        ]
        return problem.document
    }
}

extension ReplayRefusal {
    /// Similar recorded requests, the most similar one first.
    var nearest: [Int] {
        switch self {
        case .otherContent(let nearest), .otherVariant(let nearest), .notRecorded(let nearest): nearest
        case .outOfOrder(let next): [next]
        case .usedUp, .atEnd: []
        }
    }

    /// Name in reports.
    var name: String {
        switch self {
        case .otherContent: "other_content"
        case .otherVariant: "other_variant"
        case .notRecorded: "not_recorded"
        case .usedUp: "used_up"
        case .outOfOrder: "out_of_order"
        case .atEnd: "at_end"
        }
    }

    /// Whether the recording lacks the request.
    public var isUnknown: Bool {
        switch self {
        case .otherContent, .otherVariant, .notRecorded: true
        case .usedUp, .outOfOrder, .atEnd: false
        }
    }
}

extension ReplayRequest {
    /// Maximum number of bytes of a target that are shown.
    private static let shownLimit = 200

    fileprivate var shownTarget: String {
        target.count <= Self.shownLimit
            ? String(decoding: target, as: UTF8.self) : String(decoding: target.prefix(Self.shownLimit), as: UTF8.self) + "…"
    }

    public var shown: String { String(decoding: method, as: UTF8.self) + " " + shownTarget }

    /// Method and target as members of a JSON object.
    var members: [JSONValue.Member] {
        [
            .init("method", .string(String(decoding: method, as: UTF8.self))),
            .init("target", .string(String(decoding: target, as: UTF8.self))),
        ]
    }
}
