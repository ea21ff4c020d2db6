// The results of posting batches to the endpoint.

import JSON
import OwnRequests

extension OwnRequest {
    /// Maximum size of a response in bytes.
    private static let spanResponseLimitBytes = 64 << 10

    /// - Parameter url: the endpoint for spans.
    convenience init(spansTo url: String) {
        self.init(url, fields: ["Content-Type: application/json"], limitBytes: Self.spanResponseLimitBytes)
    }

    /// - Parameter patience: maximum time in milliseconds; nil for the default.
    func send(_ spans: [UInt8], patience: Int?) -> PostResult {
        switch post(spans, timeoutMilliseconds: min(patience ?? Self.timeoutMilliseconds, Self.timeoutMilliseconds)) {
        case .failed(let sentence): .failed(sentence)
        // Only the number of rejected spans is needed, so longer responses are not read.
        case .answered(let status, let retryAfter, let content):
            .answered(status: status, retryAfter: retryAfter, rejected: content.map(PostResult.rejected) ?? 0)
        }
    }
}

extension PostResult {
    /// Returns the number of rejected spans in an ExportTraceServiceResponse.
    static func rejected(_ response: [UInt8]) -> Int {
        guard let count = JSONValue(response)?["partialSuccess"]?["rejectedSpans"] else { return 0 }
        return count.integer ?? count.string.flatMap { Int($0) } ?? 0
    }
}
