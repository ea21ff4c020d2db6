// Rejects valid requests that a gateway does not forward: CONNECT and TRACE, loops, and requests with Max-Forwards at its end.

import HTTPCore

public enum RequestRefusal: Sendable, Equatable {
    case connect, trace
    /// OPTIONS with Max-Forwards 0: Cistern itself must respond (RFC 9110 §7.6.2).
    case lastForward
    /// The request has already passed through this process.
    case loop
    case access(AccessRefusal)

    /// nil if the request may be forwarded.
    public init?(_ head: borrowing RequestHead, _ fields: borrowing UpstreamRequestFields) {
        switch head.method {
        case .connect: self = .connect
        case .trace: self = .trace
        case .options where head.fields.first(.maxForwards)?.elementsEqual([UInt8(ascii: "0")]) == true: self = .lastForward
        default:
            guard fields.isLoop(head) else { return nil }
            self = .loop
        }
    }

    /// - Parameters:
    ///   - accept: the request's Accept field, all lines joined; nil if absent.
    ///   - name: name of this deployment, for Proxy-Status.
    public func response(accept: ArraySlice<UInt8>?, name: String) -> OwnResponse {
        var response: OwnResponse
        switch self {
        case .connect:
            response = OwnResponse(
                status: 405,
                sentence: "CONNECT is not supported, because responses in a tunnel could not be stored. Request http URIs instead.",
                accept: accept)
            response.fieldLines = Self.allow
        case .access(let refusal): return refusal.response(accept: accept)
        case .trace:
            response = OwnResponse(
                status: 405, sentence: "TRACE is refused: its response would contain the request's credentials.", accept: accept)
            response.fieldLines = Self.allow
        case .lastForward:
            response = OwnResponse(status: 200, contentType: "text/plain; charset=utf-8", content: [])
            response.fieldLines = Self.allow
        case .loop:
            response = OwnResponse(
                status: 502, sentence: "The request has returned to this proxy: the upstream forwards to this proxy.", accept: accept)
            response.fieldLines = Array("Proxy-Status: \(name); error=proxy_loop_detected\r\n".utf8)
        }
        return response
    }

    private static let allow = Array("Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n".utf8)

    /// Returns the decremented Max-Forwards (RFC 9110 §7.6.2); nil if it is forwarded unchanged.
    static func countedDown(_ head: RequestHead) -> [UInt8]? {
        guard head.method == .options, let value = head.fields.first(.maxForwards), value.count <= 9,
            let count = Int(String(decoding: value, as: UTF8.self)), count > 0
        else { return nil }
        return Array(String(count - 1).utf8)
    }
}
