// Metrics of the fleet on the /metrics page.

extension MetricsSnapshot.Sharing {
    func write(to writer: inout MetricsWriter) {
        func labelled(_ name: String, _ lines: [Line]) -> [(String, Double)] { lines.map { ("\(name)=\"\($0.label)\"", Double($0.count)) } }
        writer.counter(
            "cistern_shared_lookups", "Look-ups in Redis after a miss, by outcome.", labelled("outcome", lookUps))
        writer.counter(
            "cistern_shared_refusals", "Responses of other nodes that were found but not used, by reason.", labelled("reason", refusals))
        writer.counter(
            "cistern_shared_leases", "Misses, by which node was to send the request to the upstream.", labelled("outcome", leases))
        writer.counter(
            "cistern_shared_offers", "Responses stored by this node, by whether they were written to Redis for other nodes.",
            labelled("outcome", offers)
        )
        writer.histogram(
            "cistern_share_round_trip_seconds", "Time from a command to Redis to its reply.", scale: 1e-6,
            roundTrips.map { [("", $0)] } ?? [])
        writer.counter(
            "cistern_share_engine_failures", "Commands to Redis without a reply, by reason.", labelled("reason", engineFailures))
        writer.gauge(
            "cistern_share_servers", "Redis servers, by whether they are queried now. Each event loop counts each server.",
            servers.map { ("state=\"\($0.isAsked ? "asked" : "failing")\"", Double($0.count)) })
        writer.gauge("cistern_share_seeing", "Whether this node reads the purges of other nodes.", isUpToDate ? 1 : 0)
        writer.counter("cistern_share_blind_times", "Times that this node lost access to the purges of other nodes.", disconnections)
        writer.gauge(
            "cistern_share_blind", "Whether this node cannot read the purges of other nodes, by cause.", labelled("cause", troubles))
        writer.gauge(
            "cistern_share_slow_loops", "Event loops with misses that do not query Redis, because its round trip is too slow.",
            Double(slowLoops))
        writer.counter("cistern_share_log_entries_applied", "Log entries of other nodes that this node applied.", entriesApplied)
        writer.counter(
            "cistern_share_log_entries_appended", "Log entries that this node wrote, including repeated ones.", entriesAppended
        )
        writer.counter("cistern_share_log_entries_unopened", "Log entries that no secret of this node decrypts.", unopened)
        writer.counter("cistern_share_log_entries_foreign", "Log entries written with a key that belongs to no node of the fleet.", foreign)
        writer.gauge(
            "cistern_share_log_lag_seconds", "Age of the last log entry when this node read it; 0 after a reconnection.", Double(lag) * 1e-3
        )
        writer.gauge(
            "cistern_share_clock_skew_seconds",
            "Minimum difference between the Redis server's clock and this machine's; 0 if none is certain.",
            clockSkew.map { [("", Double($0) * 1e-3)] } ?? [])
        writer.counter(
            "cistern_share_gaps", "Times that purges of other nodes may have been lost, by cause.", labelled("cause", gaps))
        writer.gauge(
            "cistern_share_pending_purges", "Purges that were answered as pending and are still pending, by reason.",
            labelled("reason", pendingPurges))
    }
}
