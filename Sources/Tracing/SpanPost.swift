// Posts batches to the endpoint.

import OwnRequests

extension OwnRequest {
    /// Maximum size of a response in bytes.
    private static let spanResponseLimitBytes = 64 << 10

    /// - Parameter url: the endpoint for spans.
    convenience init(spansTo url: String) {
        self.init(url, fields: ["Content-Type: application/json"], limitBytes: Self.spanResponseLimitBytes)
    }

    /// - Parameter patience: maximum time in milliseconds; nil for the default.
    func send(_ spans: [UInt8], patience: Int?) -> Outcome {
        post(spans, timeoutMilliseconds: min(patience ?? Self.timeoutMilliseconds, Self.timeoutMilliseconds))
    }
}

extension OwnRequest.Outcome {
    /// Description of the problem; nil if there is none.
    var trouble: String? {
        switch self {
        case .answered(let status, _, _): (200..<300).contains(status) ? nil : "the response has status \(status)"
        case .failed(let sentence): sentence
        }
    }
}
