// Requests that Cistern makes for itself, such as exports of spans, key sets and notifications, with libcurl over a persistent connection.
// They block, so they belong on separate queues. Redirects and proxies of the environment are ignored, because the operator has configured
// the URL.

import CLibcurl
import Glibc

/// Not thread-safe.
public final class OwnRequest {
    public enum Outcome: Sendable {
        /// - Parameters:
        ///   - retryAfter: value of Retry-After in seconds; nil if there is none.
        ///   - content: nil if it is longer than the limit.
        case answered(status: Int, retryAfter: Int?, content: [UInt8]?)
        /// No response was received. The text is the reason.
        case failed(String)
    }

    /// Maximum time of a request in milliseconds, unless the caller has another one.
    public static let timeoutMilliseconds = 10_000
    /// Initialized once. libcurl is thread-safe afterwards.
    private static let isReady = curl_global_init(cistern_global_all()) == CURLE_OK

    private final class Received {
        let limitBytes: Int
        var bytes: [UInt8] = []
        var isTooLong = false

        init(limitBytes: Int) { self.limitBytes = limitBytes }
    }

    private let handle: UnsafeMutableRawPointer?
    private var fields: UnsafeMutablePointer<curl_slist>?
    private let received: Received
    /// libcurl's text for the last failure.
    private let words = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))

    /// - Parameters:
    ///   - fields: request fields, such as `Content-Type: application/json`.
    ///   - authorities: path of a file with trusted certificates, used instead of the system's; nil for the system's.
    ///   - limitBytes: maximum size of a response.
    public init(_ url: String, fields: [String] = [], authorities: String? = nil, limitBytes: Int) {
        handle = Self.isReady ? curl_easy_init() : nil
        received = Received(limitBytes: limitBytes)
        words.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        // Without `Expect: 100-continue`, which would delay long contents.
        for field in fields + ["Expect:"] { self.fields = curl_slist_append(self.fields, field) }
        guard let handle else { return }
        cistern_easy_prepare(handle, url)
        if let authorities { cistern_easy_trust(handle, authorities) }
        _ = cistern_easy_set_pointer(handle, CURLOPT_ERRORBUFFER, words)
        _ = cistern_easy_set_pointer(handle, CURLOPT_HTTPHEADER, self.fields)
        _ = cistern_easy_set_pointer(handle, CURLOPT_WRITEDATA, Unmanaged.passUnretained(received).toOpaque())
        _ = cistern_easy_set_write(handle) { bytes, _, count, user in
            guard let bytes, let user else { return 0 }
            let received = Unmanaged<Received>.fromOpaque(user).takeUnretainedValue()
            // Returning fewer bytes than were passed aborts the transfer.
            received.isTooLong = received.bytes.count + count > received.limitBytes
            if received.isTooLong { return 0 }
            received.bytes += UnsafeRawBufferPointer(start: bytes, count: count)
            return count
        }
    }

    deinit {
        curl_easy_cleanup(handle)
        curl_slist_free_all(fields)
        words.deallocate()
    }

    public func get() -> Outcome { perform(timeoutMilliseconds: Self.timeoutMilliseconds) }

    public func post(_ content: [UInt8], timeoutMilliseconds: Int) -> Outcome {
        guard let handle else { return perform(timeoutMilliseconds: timeoutMilliseconds) }
        _ = cistern_easy_set_long(handle, CURLOPT_POST, 1)
        _ = cistern_easy_set_long(handle, CURLOPT_POSTFIELDSIZE, content.count)
        var content = content
        return content.withUnsafeMutableBytes { bytes in
            _ = cistern_easy_set_pointer(handle, CURLOPT_POSTFIELDS, bytes.baseAddress)
            return perform(timeoutMilliseconds: timeoutMilliseconds)
        }
    }

    private func perform(timeoutMilliseconds: Int) -> Outcome {
        guard let handle else { return .failed("cannot initialize libcurl") }
        (received.bytes, received.isTooLong) = ([], false)
        words.pointee = 0
        _ = cistern_easy_set_long(handle, CURLOPT_TIMEOUT_MS, max(1, timeoutMilliseconds))
        let result = withExtendedLifetime(received) { curl_easy_perform(handle) }
        guard result == CURLE_OK || received.isTooLong else { return .failed(String(cString: cistern_easy_words(result, words))) }
        var (status, retryAfter): (Int, curl_off_t) = (0, 0)
        _ = cistern_easy_get_long(handle, CURLINFO_RESPONSE_CODE, &status)
        _ = cistern_easy_get_offset(handle, CURLINFO_RETRY_AFTER, &retryAfter)
        return .answered(
            status: status, retryAfter: retryAfter > 0 ? Int(retryAfter) : nil, content: received.isTooLong ? nil : received.bytes)
    }
}
