// Texts for requests without a recorded response: a sentence, and problem details with it (RFC 9457).

import HTTPCore
import JSON

extension Replay {
    /// One or two sentences.
    public func sentence(_ refusal: ReplayRefusal, to request: ReplayRequest) -> String {
        switch refusal {
        case .otherContent(let nearest): "\(request.shown) was recorded, but with other content. \(sentence(nearest))"
        case .notRecorded(let nearest): "\(request.shown) was not recorded. \(sentence(nearest))"
        case .usedUp(let count):
            "\(request.shown) was recorded \(count == 1 ? "once" : "\(count) times"), and all recorded responses have been served."
        case .outOfOrder(let next):
            "In strict order the next request must be \(self.request(next).shown), number \(next + 1) of \(self.count), not \(request.shown)."
        case .atEnd: "All \(self.count) recorded requests have been received already; \(request.shown) is an additional one."
        }
    }

    private func sentence(_ nearest: [Int]) -> String {
        let shown = nearest.map { request($0).shown }
        switch shown.count {
        case 0: return "The recording contains no request."
        case 1: return "The most similar recorded request is \(shown[0])."
        default: return "The most similar recorded requests are \(shown.dropLast().joined(separator: ", ")) and \(shown[shown.count - 1])."
        }
    }

    /// - Parameter status: status of the response.
    public func problem(_ refusal: ReplayRefusal, to request: ReplayRequest, status: Status) -> [UInt8] {
        let numbers: [Int] =
            switch refusal {
            case .otherContent(let nearest), .notRecorded(let nearest): nearest
            case .outOfOrder(let next): [next]
            case .usedUp, .atEnd: []
            }
        let nearest = numbers.map { number -> JSONValue in
            let one = self.request(number)
            return ["method": .string(String(decoding: one.method, as: UTF8.self)), "target": .string(one.shownTarget)]
        }
        let problem: JSONValue = [
            "type": "about:blank", "title": "Not Found", "status": .integer(Int(status.rawValue)),
            "detail": .string(sentence(refusal, to: request)), "nearest": .array(nearest),
        ]
        return problem.document
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
}
