// Declares the counters and gauges of `/metrics` that have one value, or a fixed set of labels. Modules count into a `Figures` by the name
// of a case. Sums, take-overs and the metrics page iterate over the declarations, so a new figure needs a case, its declaration and its
// increment.

public enum Figure: Int, CaseIterable, Sendable {
    case requestsInFlight
    case requestBytes
    case stored
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
    case takeOversDone
    case takeOversFailed
    case faultRules

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
            "Requests of clients that are being responded to now. Hits come and go at once.", .requestsInFlight),
        .init(.counter, "cistern_request_bytes", "Bytes of request content passed on to the upstream.", .requestBytes),
        .init(.counter, "cistern_stored", "Responses handed to the store.", .stored),
        .init(
            .counter, "cistern_content_examined_beside",
            "Content of requests and responses that was too long to be looked at on the loop.", .examinedOffLoop),
        .init(
            .counter, "cistern_writes_before_marks",
            "Responses to writes that were sent before their marks were in the files of the store. A crash may bring back older copies.",
            .writesBeforeMarks),
        .init(
            .counter, "cistern_client_directives_ignored",
            "Hits served despite no-cache or max-age of the request, which the operator ignores.", .clientDirectivesIgnored),
        .init(
            .counter, "cistern_carried_grants",
            "Responses that scripts of other origins can read by what the upstream said with an earlier one.", .corsFieldsAdded),
        .init(
            .counter, "cistern_admin_refused",
            "Requests to the administrator's interface that were refused, such as for a wrong token.", .adminRefused),
        .init(
            .counter, "cistern_compressed_responses",
            "Responses that arrived without a coding and were sent with gzip; refused: too many were being compressed.",
            [("how=\"whole\"", .compressedWhole), ("how=\"passed\"", .compressedPassed), ("how=\"refused\"", .compressionRefused)]),
        .init(.gauge, "cistern_compressing", "Responses that are passed on with gzip just now.", .compressing),
        .init(
            .counter, "cistern_recoded_contents",
            "Stored contents that were sent in another coding than the stored one, or in none.",
            [("from=\"made\"", .recodedMade), ("from=\"memory\"", .recodedFromMemory), ("from=\"beside\"", .recodedOffLoop)]),
        .init(.gauge, "cistern_recoded_memory_bytes", "Memory for such contents, to be sent again.", .recodedMemoryBytes),
        .init(.counter, "cistern_repeated_hits", "Hits that got the response of a moment ago, without a look-up.", .repeatedHits),
        .init(.counter, "cistern_upstream_requests", "Requests sent to the upstream.", .upstreamRequests),
        .init(.gauge, "cistern_upstream_active_requests", "Requests at the upstream now.", .upstreamActive),
        .init(.counter, "cistern_upstream_connections", "Connections opened to the upstream.", .upstreamConnections),
        .init(.gauge, "cistern_upstream_open_connections", "Connections to the upstream, in use or idle, now.", .upstreamOpen),
        .init(
            .gauge, "cistern_upstream_connections_limit",
            "The limit on connections to the upstream, of all event loops, APIs and addresses.", .upstreamLimit),
        .init(.counter, "cistern_upstream_http2_connections", "Those of them on which HTTP/2 is spoken.", .upstreamHTTP2Connections),
        .init(.gauge, "cistern_upstream_http2_streams", "Requests at the upstream now over HTTP/2.", .upstreamHTTP2Streams),
        .init(
            .gauge, "cistern_upstream_owned_connections",
            "Connections to the upstream that belong to one client's connection (NTLM, Negotiate, Kerberos), now.", .upstreamOwned),
        .init(
            .counter, "cistern_upstream_tls_handshakes",
            "TLS agreed with the upstream: in full, or by resuming a session.",
            [("kind=\"full\"", .upstreamHandshakesFull), ("kind=\"resumed\"", .upstreamHandshakesResumed)]),
        .init(
            .counter, "cistern_connection_attempts",
            "Connections tried in the background while the upstream could not be reached.", .connectionAttempts),
        .init(.counter, "cistern_upstream_retries", "Requests sent for the second time.", .upstreamRetries),
        .init(.counter, "cistern_upstream_moved_on", "Requests that went on to another address of the upstream.", .upstreamFailovers),
        .init(
            .counter, "cistern_upstream_name_lookups",
            "Look-ups of upstreams' names behind requests; those that fail change nothing.",
            [("result=\"found\"", .nameLookUpsDone), ("result=\"failed\"", .nameLookUpsFailed)]),
        .init(.counter, "cistern_upstream_turned_away", "Requests not sent because too many waited.", .upstreamRejected),
        .init(.gauge, "cistern_upstream_waiting_requests", "Requests that wait for a connection now.", .upstreamWaiting),
        .init(
            .counter, "cistern_upstream_left_queue",
            "Requests cancelled while they waited for a connection, because no client waited for them any more.", .upstreamCancelledInQueue),
        .init(.gauge, "cistern_streams", "Responses that are streams and are passed on now.", .streams),
        .init(.counter, "cistern_streams_begun", "Those begun.", .streamsBegun),
        .init(
            .counter, "cistern_streams_turned_away",
            "Those that got 503, since streams held half of the connections.", .streamsRejected),
        .init(
            .counter, "cistern_cookie_sets_left_out",
            "Sets of cookies of new clients that were not remembered, because too many came.", .setCookiesOmitted),
        .init(.gauge, "cistern_collapsed_waiting", "Requests that wait for another's fetch now.", .collapsedWaiting),
        .init(.gauge, "cistern_background_fetches", "Fetches that no client waits for, now.", .backgroundRunning),
        .init(.counter, "cistern_background_fetches_started", "Those started.", .backgroundStarted),
        .init(.counter, "cistern_background_fetches_skipped", "Those not started because too many were running.", .backgroundSkipped),
        .init(.gauge, "cistern_tokens_remembered", "Tokens of requests that are remembered.", .tokensRemembered),
        .init(.gauge, "cistern_identity_lookups_remembered", "Credentials of which is remembered what came of that.", .lookUpsRemembered),
        .init(.gauge, "cistern_token_keys", "Keys that tokens are verified with.", .tokenKeys),
        .init(
            .counter, "cistern_token_key_reads",
            "How often such keys were read or fetched, or could not be.",
            [("result=\"read\"", .tokenKeysRead), ("result=\"failed\"", .tokenKeysFailed)]),
        .init(.gauge, "cistern_connections", "Open client connections.", .connectionsOpen),
        .init(.gauge, "cistern_connections_limit", "The limit on open client connections.", .connectionsLimit),
        .init(.counter, "cistern_connections_accepted", "Client connections accepted.", .connectionsAccepted),
        .init(
            .counter, "cistern_connections_turned_away",
            "Client connections closed at once, since their address had too many.", .connectionsRejected),
        .init(
            .counter, "cistern_connections_closed_for_room",
            "Idle client connections closed to free capacity for others.", .connectionsEvicted),
        .init(
            .counter, "cistern_connections_cut",
            "Client connections ended because too much waited to be sent in all.", .connectionsCut),
        .init(
            .counter, "cistern_connections_request_limit",
            "Client connections closed after as many requests as one may have.", .connectionsRequestLimit),
        .init(.gauge, "cistern_unsent_bytes", "Memory of responses that clients have not taken yet.", .unsentBytes),
        .init(.gauge, "cistern_unsent_limit_bytes", "The limit on that memory; 0 for none.", .unsentLimitBytes),
        .init(
            .gauge, "cistern_request_content_held_bytes",
            "Memory that requests' content takes which is taken whole.", .heldContentBytes),
        .init(.gauge, "cistern_request_content_limit_bytes", "The limit on that memory.", .heldContentLimitBytes),
        .init(
            .counter, "cistern_uploads_discarded",
            "Requests with content that was still arriving when their response had been sent.", .uploadsDiscarded),
        .init(
            .counter, "cistern_uploads_cut",
            "Those of them that were cut, since their content exceeded what is read and discarded.", .uploadsCut),
        .init(
            .counter, "cistern_proxy_headers_refused",
            "Connections that did not begin with the PROXY protocol where they must, or not from a trusted proxy.", .proxyHeadersRefused),
        .init(.counter, "cistern_connections_timed_out", "Client connections ended by a time-out.", .connectionsTimedOut),
        .init(.counter, "cistern_accept_pauses", "How often accepting paused: limit reached, or no descriptors left.", .acceptPauses),
        .init(.counter, "cistern_http2_connections", "Client connections on which HTTP/2 was spoken.", .http2Connections),
        .init(.counter, "cistern_http2_requests", "Requests that came on them.", .http2Requests),
        .init(.counter, "cistern_http2_resets", "Such requests that either side reset.", .http2Resets),
        .init(
            .counter, "cistern_http2_connections_ended",
            "HTTP/2 connections ended for what their client did, by cause.",
            [("cause=\"flood\"", .http2Floods), ("cause=\"protocol\"", .http2Errors)]),
        .init(.counter, "cistern_access_log_dropped", "Access log lines dropped because the log could not keep up.", .accessLogDropped),
        .init(
            .counter, "cistern_take_overs",
            "Processes that took over from another without a gap, and that were to and did not.",
            [("result=\"done\"", .takeOversDone), ("result=\"failed\"", .takeOversFailed)]),
        .init(.gauge, "cistern_fault_rules", "Rules that inject faults now, to practise an outage.", .faultRules),
    ]
}

extension Figure.Family {
    init(_ kind: Figure.Kind, _ name: String, _ help: String, _ samples: [(labels: String, figure: Figure)]) {
        (self.kind, self.name, self.help, self.samples) = (kind, name, help, samples)
    }

    init(_ kind: Figure.Kind, _ name: String, _ help: String, _ figure: Figure) { self.init(kind, name, help, [("", figure)]) }
}
