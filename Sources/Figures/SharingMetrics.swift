// Metrics of the fleet on the /metrics page.

extension MetricsSnapshot.Sharing {
    func write(to writer: inout MetricsWriter) {
        func labelled(_ name: String, _ lines: [Line]) -> [(String, Double)] { lines.map { ("\(name)=\"\($0.label)\"", Double($0.count)) } }
        writer.counter(
            "cistern_shared_lookups", "Look-ups in the level that nodes share, by what came of them.", labelled("outcome", lookUps))
        writer.counter(
            "cistern_shared_refusals", "Responses of other nodes that were found and not taken, by reason.", labelled("reason", refusals))
        writer.counter(
            "cistern_shared_leases", "Misses by who of all nodes was to ask the upstream.", labelled("outcome", leases))
        writer.counter(
            "cistern_shared_offers", "Responses that were stored here, by whether other nodes were given them.", labelled("outcome", offers)
        )
        writer.histogram(
            "cistern_share_round_trip_seconds", "From a command to the engine to its reply.", scale: 1e-6,
            roundTrips.map { [("", $0)] } ?? [])
        writer.counter(
            "cistern_share_engine_failures", "Commands to the engine that had no reply, by reason.", labelled("reason", engineFailures))
        writer.gauge(
            "cistern_share_servers", "Servers of the engine, by whether they are asked just now; once for each event loop.",
            servers.map { ("state=\"\($0.isAsked ? "asked" : "failing")\"", Double($0.count)) })
        writer.gauge("cistern_share_seeing", "Whether what other nodes purge is seen.", isUpToDate ? 1 : 0)
        writer.counter("cistern_share_blind_times", "Times that it was seen no more.", disconnections)
        writer.gauge("cistern_share_blind", "Whether it is not seen, by cause.", labelled("cause", troubles))
        writer.gauge(
            "cistern_share_slow_loops", "Event loops with misses that do not query the engine, because its round trip is too slow.",
            Double(slowLoops))
        writer.counter("cistern_share_log_entries_applied", "Entries of other nodes in the log that were applied here.", entriesApplied)
        writer.counter(
            "cistern_share_log_entries_appended", "Entries of this node in the log, those that were sent again among them.", entriesAppended
        )
        writer.counter("cistern_share_log_entries_unopened", "Entries that none of this node's secrets opens.", unopened)
        writer.counter("cistern_share_log_entries_foreign", "Entries by keys that no node of the fleet has.", foreign)
        writer.gauge(
            "cistern_share_log_lag_seconds", "How old the last entry was when it was read; 0 after a while away.", Double(lag) * 1e-3)
        writer.gauge(
            "cistern_share_clock_skew_seconds",
            "The clock of the engine's server less this machine's, as far as it must differ; 0 if it need not.",
            clockSkew.map { [("", Double($0) * 1e-3)] } ?? [])
        writer.counter(
            "cistern_share_gaps", "Times that what others had purged could not be known any more, by cause.", labelled("cause", gaps))
        writer.gauge(
            "cistern_share_pending_purges", "Purges that were answered as pending and are, by why.", labelled("reason", pendingPurges))
    }
}
