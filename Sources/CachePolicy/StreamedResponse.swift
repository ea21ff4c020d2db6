// Detects streaming responses, which arrive in pieces over an unlimited time. Each piece is forwarded immediately. Streams are never
// stored, collapsed or rescued.

import HTTPCore

public enum StreamedResponse {
    /// Server-sent events, JSON lines and sequences (RFC 7464), and JSON in Connect and gRPC frames. Other sequences have the suffix
    /// `+json-seq` (RFC 8091).
    private static let types: [StaticString] = [
        "text/event-stream", "application/x-ndjson", "application/jsonl", "application/json-seq", "application/stream+json",
        "application/connect+json", "application/grpc-web+json", "application/grpc+json",
    ]

    /// Length of the shortest type.
    private static let shortestBytes = 17

    /// Returns whether a response is a stream.
    /// - Parameter onStreamRoute: whether the operator declared the route's responses to be streams.
    public static func isStream(_ response: ResponseHead, to method: Method, onStreamRoute: Bool) -> Bool {
        guard method != .head, response.status.isSuccessful, !response.status.forbidsContent else { return false }
        return onStreamRoute || response.fields.first(.contentType).map(isStreamed) ?? false
            || !response.fields.contains(.contentLength) && isUnbuffered(response.fields)
    }

    /// Returns whether the upstream asked nginx not to buffer the response. Frameworks set this for every response, so it indicates a
    /// stream only without Content-Length.
    public static func isUnbuffered(_ fields: Fields) -> Bool { fields.first(.xAccelBuffering)?.equalsIgnoringCase("no") ?? false }

    /// Returns whether a request accepts only streams, as browsers' event sources do. Such a request never waits for another request's
    /// response head.
    public static func isWanted(by request: Fields) -> Bool {
        // Nearly all requests end here, without parsing the list.
        guard let first = request.first(.accept), first.count >= shortestBytes else { return false }
        var count = 0
        let wantsOther = FieldLists.contains(.accept, in: request) { type in
            count += 1
            return count > types.count || !isStreamed(type)
        }
        return count > 0 && !wantsOther
    }

    /// Returns whether a media type is a stream. It is checked for every response, so other types are rejected before the type is parsed.
    /// - Parameter type: without surrounding white space.
    private static func isStreamed(_ type: ArraySlice<UInt8>) -> Bool {
        guard type.count >= shortestBytes else { return false }
        for streamed in types where type.count >= streamed.utf8CodeUnitCount {
            if type.prefix(streamed.utf8CodeUnitCount).equalsIgnoringCase(streamed) { return MediaType(type)?.isEssence(streamed) ?? false }
        }
        return type.contains(UInt8(ascii: "+")) && hasSequenceSuffix(type) || hasStreamParameter(type)
    }

    /// Matches `application/geo+json-seq`.
    private static func hasSequenceSuffix(_ type: ArraySlice<UInt8>) -> Bool {
        MediaType(type)?.suffix.equalsIgnoringCase("json-seq") ?? false
    }

    /// Matches `application/json; stream=watch`.
    private static func hasStreamParameter(_ type: ArraySlice<UInt8>) -> Bool {
        guard type.contains(UInt8(ascii: ";")), MediaType(type)?.isJSON == true else { return false }
        return FieldLists.members(of: type, separator: UInt8(ascii: ";")).dropFirst().contains {
            $0.prefix(7).equalsIgnoringCase("stream=")
        }
    }
}
