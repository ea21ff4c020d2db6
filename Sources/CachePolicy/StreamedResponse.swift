// Which responses are streams: they come piece by piece for as long as the upstream likes, and each piece is wanted at once. So they are passed on as they
// come, and are never stored, shared or rescued.

import HTTPCore

public enum StreamedResponse {
    /// Server-sent events, JSON in lines or sequences (RFC 7464), and JSON in frames of Connect and gRPC.
    private static let types: [StaticString] = [
        "text/event-stream", "application/x-ndjson", "application/jsonl", "application/json-seq", "application/stream+json",
        "application/connect+json", "application/grpc-web+json", "application/grpc+json",
    ]

    /// The shortest of them.
    private static let shortestBytes = 17

    /// Whether a response is a stream.
    /// - Parameter onStreamRoute: the operator says so of all on its route.
    public static func isStream(_ response: ResponseHead, to method: Method, onStreamRoute: Bool) -> Bool {
        guard method != .head, response.status.isSuccessful, !response.status.forbidsContent else { return false }
        return onStreamRoute || response.fields.first(.contentType).map(isStreamed) ?? false
            || isUnbuffered(response.fields) && !response.fields.contains(.contentLength)
    }

    /// Whether the upstream asks nginx to hold nothing back. Frameworks say so of all that they send; so it tells a stream only where no length is known.
    public static func isUnbuffered(_ fields: Fields) -> Bool { fields.first(.xAccelBuffering)?.equalsIgnoringCase("no") ?? false }

    /// Whether a request wants a stream and nothing else, as browsers' event sources do. Nobody waits for the head of another's then.
    public static func isWanted(by request: Fields) -> Bool {
        // Whatever else it names: nearly all requests end here.
        guard let first = request.first(.accept), first.count >= shortestBytes else { return false }
        var count = 0
        let wantsOther = FieldLists.contains(.accept, in: request) { type in
            count += 1
            return count > types.count || !isStreamed(type)
        }
        return count > 0 && !wantsOther
    }

    /// Asked for every response, and nearly always of another type: that is known before the type is read.
    /// - Parameter type: without white space around it.
    private static func isStreamed(_ type: ArraySlice<UInt8>) -> Bool {
        guard type.count >= shortestBytes else { return false }
        for streamed in types where type.count >= streamed.utf8CodeUnitCount {
            if type.prefix(streamed.utf8CodeUnitCount).equalsIgnoringCase(streamed) { return MediaType(type)?.isEssence(streamed) ?? false }
        }
        return hasStreamParameter(type)
    }

    /// `application/json; stream=watch`.
    private static func hasStreamParameter(_ type: ArraySlice<UInt8>) -> Bool {
        guard type.contains(UInt8(ascii: ";")), MediaType(type)?.isJSON == true else { return false }
        return FieldLists.members(of: type, separator: UInt8(ascii: ";")).dropFirst().contains {
            $0.prefix(7).equalsIgnoringCase("stream=")
        }
    }
}
