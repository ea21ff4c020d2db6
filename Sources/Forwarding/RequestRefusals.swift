// Requests that are answered here although they are well formed: methods that a gateway does not pass on, loops, and Max-Forwards at its end.

import HTTPCore

package enum RequestRefusals {
    /// - Parameter upstream: this deployment's name, for Proxy-Status.
    package static func refusal(of head: RequestHead, fields: UpstreamRequestFields, upstream name: String) -> OwnResponse? {
        let accept = head.fields.combined(.accept)
        switch head.method {
        case .connect:
            return OwnResponse(status: 501, sentence: "CONNECT is not spoken here: this is a gateway to one upstream.", accept: accept)
        case .trace: return notAllowed("TRACE is refused: it would show the request's credentials.", accept)
        case .options where head.fields.first(.maxForwards)?.elementsEqual([UInt8(ascii: "0")]) == true:
            var answer = OwnResponse(status: 200, contentType: "text/plain; charset=utf-8", content: [])
            answer.fieldLines = Array("Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n".utf8)
            return answer
        default: break
        }
        guard fields.isLoop(head) else { return nil }
        var answer = OwnResponse(
            status: 502, sentence: "The request came back to this proxy: the upstream leads here again.", accept: accept)
        answer.fieldLines = Array("Proxy-Status: \(name); error=proxy_loop_detected\r\n".utf8)
        return answer
    }

    private static func notAllowed(_ sentence: String, _ accept: [UInt8]?) -> OwnResponse {
        var answer = OwnResponse(status: 405, sentence: sentence, accept: accept)
        answer.fieldLines = Array("Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n".utf8)
        return answer
    }

    /// Max-Forwards as it is passed on (RFC 9110 §7.6.2); nil where it is left alone.
    static func countedDown(_ head: RequestHead) -> [UInt8]? {
        guard head.method == .options, let value = head.fields.first(.maxForwards), value.count <= 9,
            let count = Int(String(decoding: value, as: UTF8.self)), count > 0
        else { return nil }
        return Array(String(count - 1).utf8)
    }
}
