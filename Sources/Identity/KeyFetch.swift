// Fetches a key set on a separate thread, every few minutes for all requests. No data of a request is sent.

import OwnRequests

enum KeyFetch {
    /// Why the keys could not be fetched, as text for the operator.
    struct Failure: Error { let sentence: String }

    /// Fetches the keys. Blocks.
    /// - Parameter authorities: path of a file with trusted certificates, used instead of the system's; nil for the system's.
    static func get(_ url: String, authorities: String?) throws(Failure) -> [UInt8] {
        switch OwnRequest(url, authorities: authorities, limitBytes: KeySet.byteLimit).get() {
        case .failed(let sentence): throw Failure(sentence: sentence)
        case .answered(200, _, let content?): return content
        case .answered(200, _, nil): throw Failure(sentence: "the response is longer than \(KeySet.byteLimit) bytes")
        case .answered(let status, _, _): throw Failure(sentence: "the response has status \(status)")
        }
    }
}
