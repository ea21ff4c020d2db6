// libcurl's result codes in the words of RFC 9209 §2.3.

import CLibcurl

extension UpstreamError {
    /// How making a connection failed.
    init(connecting code: CURLcode) {
        let error = UpstreamError(code)
        // Cut while TLS or the forward proxy were being talked to.
        self = error.isFailureToReach || error == .proxyInternalError ? error : .connectionRefused
    }

    init(_ code: CURLcode) {
        switch code {
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY: self = .dnsError
        case CURLE_COULDNT_CONNECT, CURLE_INTERFACE_FAILED: self = .connectionRefused
        case CURLE_OPERATION_TIMEDOUT: self = .connectionTimeout
        case CURLE_PARTIAL_FILE, CURLE_HTTP2, CURLE_HTTP2_STREAM: self = .responseIncomplete
        case CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_SEND_FAIL_REWIND, CURLE_ABORTED_BY_CALLBACK:
            self = .connectionTerminated
        case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CIPHER, CURLE_USE_SSL_FAILED, CURLE_SSL_SHUTDOWN_FAILED: self = .tlsProtocolError
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR,
            CURLE_SSL_INVALIDCERTSTATUS, CURLE_SSL_PINNEDPUBKEYNOTMATCH:
            self = .tlsCertificateError
        case CURLE_BAD_CONTENT_ENCODING: self = .transferCoding
        // A trailer that is no field is a bad argument to libcurl.
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY, CURLE_HTTP_RETURNED_ERROR, CURLE_BAD_FUNCTION_ARGUMENT:
            self = .protocolError
        // A line longer than libcurl's own limit is said to be one too many for the memory.
        case CURLE_OUT_OF_MEMORY: self = .responseHeaderTooLarge
        case CURLE_FAILED_INIT, CURLE_UNKNOWN_OPTION: self = .proxyInternalError
        default: self = .connectionTerminated
        }
    }
}
