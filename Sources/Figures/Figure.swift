// Declares the counters and gauges of `/metrics` that have one value, or a fixed set of labels. Modules count into a `Figures` by the name
// of a case. Sums, take-overs and the metrics page iterate over the declarations, so a new figure needs a case, its declaration and its
// increment.

public enum Figure: Int, CaseIterable, Sendable {
    case requestsInFlight
    case requestBytes
    case stored
    case longResponses
    case examinedOffLoop
    case writesBeforeMarks
    case clientDirectivesIgnored
    case corsFieldsAdded
    case adminRefused
    case compressedWhole
    case compressedPassed
    case compressionRefused
    case compressing
    case recodedMade
    case recodedFromMemory
    case recodedOffLoop
    case recodedMemoryBytes
    case repeatedHits
    case upstreamRequests
    case upstreamActive
    case upstreamConnections
    case upstreamOpen
    case upstreamLimit
    case upstreamHTTP2Connections
    case upstreamHTTP2Streams
    case upstreamOwned
    case upstreamHandshakesFull
    case upstreamHandshakesResumed
    case connectionAttempts
    case upstreamRetries
    case upstreamFailovers
    case nameLookUpsDone
    case nameLookUpsFailed
    case upstreamRejected
    case upstreamWaiting
    case upstreamCancelledInQueue
    case upstreamClientLimited
    case upstreamSlowGivenUp
    case streams
    case streamsBegun
    case streamsRejected
    case setCookiesOmitted
    case collapsedWaiting
    case backgroundRunning
    case backgroundStarted
    case backgroundSkipped
    case tokensRemembered
    case lookUpsRemembered
    case tokenKeys
    case tokenKeysRead
    case tokenKeysFailed
    case connectionsOpen
    case connectionsLimit
    case connectionsAccepted
    case connectionsRejected
    case connectionsEvicted
    case connectionsCut
    case connectionsRequestLimit
    case unsentBytes
    case unsentLimitBytes
    case heldContentBytes
    case heldContentLimitBytes
    case heldResponseBytes
    case heldResponseLimitBytes
    case uploadsDiscarded
    case uploadsCut
    case proxyHeadersRefused
    case connectionsTimedOut
    case acceptPauses
    case http2Connections
    case http2Requests
    case http2Resets
    case http2Floods
    case http2Errors
    case accessLogDropped
    case requestLinesOmitted
    case takeOversDone
    case takeOversFailed
    case faultRules
    case observedPaths
    case observedPathsReplaced
    case unobservedUnknown
    case unobservedFull

    public enum Kind: Sendable { case counter, gauge }

    /// A metric of the page. Counters are named without `_total`.
    public struct Family: Sendable {
        public let kind: Kind
        public let name: String
        public let help: String
        /// Labels as on the page, with the figure of each sample; "" for no label.
        public let samples: [(labels: String, figure: Figure)]
    }

    /// In the order of the page.
    public static let families: [Family] = [
        .init(
            .gauge, "cistern_requests_in_flight",
            "Client requests in progress. Hits complete at once, so they hardly show.", .requestsInFlight),
        .init(.counter, "cistern_request_bytes", "Bytes of request content sent to the upstream.", .requestBytes),
        .init(.counter, "cistern_stored", "Responses handed to the store.", .stored),
        .init(
            .counter, "cistern_long_responses",
            "Responses above cache.hold_limit that were sent to their clients while they were collected for the store.", .longResponses),
        .init(
            .counter, "cistern_content_examined_beside",
            "Contents of requests and responses that were examined off the event loop because of their length.", .examinedOffLoop),
        .init(
            .counter, "cistern_writes_before_marks",
            "Responses to writes sent before the invalidation was written to the store. A crash may restore older responses.",
            .writesBeforeMarks),
        .init(
            .counter, "cistern_client_directives_ignored",
            "Hits served despite no-cache or max-age of the request, because client_directives is ignore.", .clientDirectivesIgnored),
        .init(
            .counter, "cistern_carried_grants",
            "Responses that got CORS fields from an earlier response of the upstream.", .corsFieldsAdded),
        .init(
            .counter, "cistern_admin_refused",
            "Requests to the admin interface that were rejected, such as for a wrong token.", .adminRefused),
        .init(
            .counter, "cistern_compressed_responses",
            "Responses that arrived without a coding and were compressed with gzip. refused: not compressed, because too many others were.",
            [("how=\"whole\"", .compressedWhole), ("how=\"passed\"", .compressedPassed), ("how=\"refused\"", .compressionRefused)]),
        .init(.gauge, "cistern_compressing", "Forwarded responses that are being compressed with gzip now.", .compressing),
        .init(
            .counter, "cistern_recoded_contents",
            "Stored contents sent in another coding than the stored one, or without a coding.",
            [("from=\"made\"", .recodedMade), ("from=\"memory\"", .recodedFromMemory), ("from=\"beside\"", .recodedOffLoop)]),
        .init(.gauge, "cistern_recoded_memory_bytes", "Memory used for stored contents in another coding, for reuse.", .recodedMemoryBytes),
        .init(
            .counter, "cistern_repeated_hits",
            "Hits answered with the response that an identical request received less than a second earlier.", .repeatedHits),
        .init(.counter, "cistern_upstream_requests", "Requests sent to the upstream.", .upstreamRequests),
        .init(.gauge, "cistern_upstream_active_requests", "Requests sent to the upstream that have not ended.", .upstreamActive),
        .init(.counter, "cistern_upstream_connections", "Connections opened to the upstream.", .upstreamConnections),
        .init(.gauge, "cistern_upstream_open_connections", "Open connections to the upstream, in use or idle.", .upstreamOpen),
        .init(
            .gauge, "cistern_upstream_connections_limit",
            "Maximum number of connections to the upstream, over all event loops, APIs and addresses.", .upstreamLimit),
        .init(.counter, "cistern_upstream_http2_connections", "HTTP/2 connections opened to the upstream.", .upstreamHTTP2Connections),
        .init(.gauge, "cistern_upstream_http2_streams", "HTTP/2 requests sent to the upstream that have not ended.", .upstreamHTTP2Streams),
        .init(
            .gauge, "cistern_upstream_owned_connections",
            "Open connections to the upstream that belong to one client connection (NTLM, Negotiate, Kerberos).", .upstreamOwned),
        .init(
            .counter, "cistern_upstream_tls_handshakes",
            "TLS handshakes with the upstream: full, or resumed from a session.",
            [("kind=\"full\"", .upstreamHandshakesFull), ("kind=\"resumed\"", .upstreamHandshakesResumed)]),
        .init(
            .counter, "cistern_connection_attempts",
            "Background connection attempts while the upstream was unreachable.", .connectionAttempts),
        .init(.counter, "cistern_upstream_retries", "Requests to the upstream that were retried.", .upstreamRetries),
        .init(.counter, "cistern_upstream_moved_on", "Requests that failed over to another address of the upstream.", .upstreamFailovers),
        .init(
            .counter, "cistern_upstream_name_lookups",
            "Background look-ups of upstream names. After a failed one, the known addresses stay in use.",
            [("result=\"found\"", .nameLookUpsDone), ("result=\"failed\"", .nameLookUpsFailed)]),
        .init(
            .counter, "cistern_upstream_turned_away", "Requests not sent to the upstream because the queue for connections was full.",
            .upstreamRejected),
        .init(.gauge, "cistern_upstream_waiting_requests", "Requests that wait for an upstream connection.", .upstreamWaiting),
        .init(
            .counter, "cistern_upstream_left_queue",
            "Requests cancelled while they waited for an upstream connection, because all their clients had disconnected.",
            .upstreamCancelledInQueue),
        .init(
            .counter, "cistern_upstream_client_limited",
            "Requests that waited because their client held its part of the upstream connections for a path or for streamed content.",
            .upstreamClientLimited),
        .init(
            .counter, "cistern_upstream_slow_given_up",
            "Responses and uploads ended because their client hardly read or sent content while other requests waited for a connection.",
            .upstreamSlowGivenUp),
        .init(.gauge, "cistern_streams", "Streamed responses in progress.", .streams),
        .init(.counter, "cistern_streams_begun", "Streamed responses that have begun.", .streamsBegun),
        .init(
            .counter, "cistern_streams_turned_away",
            "Streams rejected with 503, because streams used their part of the upstream connections.", .streamsRejected),
        .init(
            .counter, "cistern_cookie_sets_left_out",
            "Sets of cookies given to new clients that were not remembered, because there were too many.", .setCookiesOmitted),
        .init(.gauge, "cistern_collapsed_waiting", "Requests that wait for the fetch of an identical request.", .collapsedWaiting),
        .init(.gauge, "cistern_background_fetches", "Background fetches in progress.", .backgroundRunning),
        .init(.counter, "cistern_background_fetches_started", "Background fetches started.", .backgroundStarted),
        .init(
            .counter, "cistern_background_fetches_skipped", "Background fetches not started, because too many were in progress.",
            .backgroundSkipped),
        .init(.gauge, "cistern_tokens_remembered", "Tokens with a cached verification result.", .tokensRemembered),
        .init(.gauge, "cistern_identity_lookups_remembered", "Credentials with a cached identity look-up result.", .lookUpsRemembered),
        .init(.gauge, "cistern_token_keys", "Keys for the verification of tokens.", .tokenKeys),
        .init(
            .counter, "cistern_token_key_reads",
            "Attempts to read or fetch the keys for tokens, by result.",
            [("result=\"read\"", .tokenKeysRead), ("result=\"failed\"", .tokenKeysFailed)]),
        .init(.gauge, "cistern_connections", "Open client connections.", .connectionsOpen),
        .init(.gauge, "cistern_connections_limit", "Maximum number of open client connections.", .connectionsLimit),
        .init(.counter, "cistern_connections_accepted", "Client connections accepted.", .connectionsAccepted),
        .init(
            .counter, "cistern_connections_turned_away",
            "Client connections closed at once, because their address had too many.", .connectionsRejected),
        .init(
            .counter, "cistern_connections_closed_for_room",
            "Idle client connections closed to free capacity for others.", .connectionsEvicted),
        .init(
            .counter, "cistern_connections_cut",
            "Client connections closed because the unsent responses of all clients exceeded limits.unsent.", .connectionsCut),
        .init(
            .counter, "cistern_connections_request_limit",
            "Client connections closed after the maximum number of requests.", .connectionsRequestLimit),
        .init(.gauge, "cistern_unsent_bytes", "Memory used by response data that clients have not received yet.", .unsentBytes),
        .init(
            .gauge, "cistern_unsent_limit_bytes", "Maximum memory for response data that clients have not received yet; 0 for no limit.",
            .unsentLimitBytes),
        .init(
            .gauge, "cistern_request_content_held_bytes",
            "Memory used by buffered request content.", .heldContentBytes),
        .init(.gauge, "cistern_request_content_limit_bytes", "Maximum memory for buffered request content.", .heldContentLimitBytes),
        .init(
            .gauge, "cistern_response_content_held_bytes", "Memory used by responses longer than 64 KiB that are being received whole.",
            .heldResponseBytes),
        .init(
            .gauge, "cistern_response_content_limit_bytes", "Maximum memory for responses that are being received whole.",
            .heldResponseLimitBytes),
        .init(
            .counter, "cistern_uploads_discarded",
            "Requests with content that was still arriving after their response had been sent.", .uploadsDiscarded),
        .init(
            .counter, "cistern_uploads_cut",
            "Requests aborted after their response, because their remaining content exceeded what Cistern reads and discards.", .uploadsCut),
        .init(
            .counter, "cistern_proxy_headers_refused",
            "Connections rejected because the required PROXY header was missing, or did not come from a trusted proxy.",
            .proxyHeadersRefused),
        .init(.counter, "cistern_connections_timed_out", "Client connections closed by a timeout.", .connectionsTimedOut),
        .init(
            .counter, "cistern_accept_pauses", "Pauses in accepting connections, because of a limit or missing file descriptors.",
            .acceptPauses),
        .init(.counter, "cistern_http2_connections", "HTTP/2 client connections.", .http2Connections),
        .init(.counter, "cistern_http2_requests", "Requests of clients over HTTP/2.", .http2Requests),
        .init(.counter, "cistern_http2_resets", "HTTP/2 requests that the client or Cistern reset.", .http2Resets),
        .init(
            .counter, "cistern_http2_connections_ended",
            "HTTP/2 connections closed because of the client's conduct, by cause.",
            [("cause=\"flood\"", .http2Floods), ("cause=\"protocol\"", .http2Errors)]),
        .init(.counter, "cistern_access_log_dropped", "Access log lines dropped because the log could not keep up.", .accessLogDropped),
        .init(
            .counter, "cistern_request_lines_omitted",
            "Requests that were not shown on the terminal, because there were too many or the terminal was too slow.",
            .requestLinesOmitted),
        .init(
            .counter, "cistern_take_overs",
            "Take-overs from another process, by result.",
            [("result=\"done\"", .takeOversDone), ("result=\"failed\"", .takeOversFailed)]),
        .init(.gauge, "cistern_fault_rules", "Fault injection rules in effect.", .faultRules),
        .init(.gauge, "cistern_observed_paths", "Paths that are observed for cistern advise.", .observedPaths),
        .init(
            .counter, "cistern_observed_paths_replaced", "Observed paths that others replaced, because admin.observed_paths was reached.",
            .observedPathsReplaced),
        .init(
            .counter, "cistern_unobserved_fetches",
            "Fetches that were not observed. unknown: too few for their path; full: admin.observed_paths was reached.",
            [("reason=\"unknown\"", .unobservedUnknown), ("reason=\"full\"", .unobservedFull)]),
    ]
}

extension Figure.Family {
    init(_ kind: Figure.Kind, _ name: String, _ help: String, _ samples: [(labels: String, figure: Figure)]) {
        (self.kind, self.name, self.help, self.samples) = (kind, name, help, samples)
    }

    init(_ kind: Figure.Kind, _ name: String, _ help: String, _ figure: Figure) { self.init(kind, name, help, [("", figure)]) }
}
