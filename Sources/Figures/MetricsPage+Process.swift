// Metrics of the process at /metrics: loops, clocks, limits, settings and build.

extension MetricsPage {
    static func loops(_ loops: [MetricsSnapshot.LoopLine], _ writer: inout MetricsWriter) {
        writer.gauge(
            "cistern_loop_longest_wait_seconds", "Longest time that an event waited for its event loop within the last minute.",
            loops.map { ("shard=\"\($0.shard)\"", Double($0.longestWait) * 1e-6) })
        writer.histogram(
            "cistern_loop_wait_seconds",
            "Upper bound of the time that events waited for their event loop: the duration of each batch of events.", scale: 1e-6,
            loops.map { ("shard=\"\($0.shard)\"", $0.waits) })
        writer.counter(
            "cistern_loop_stalls", "Batches of events that delayed other events by more than 2.048 ms.",
            loops.map { ("shard=\"\($0.shard)\"", Double($0.waits.count(above: Self.stallMicroseconds))) })
        let workers = loops.flatMap { loop in loop.workers.map { ("shard=\"\(loop.shard)\",worker=\"\($0.name)\"", $0.queue, $0.bytes) } }
        writer.gauge(
            "cistern_worker_queue", "Waiting and running tasks of each worker thread outside the event loops.",
            workers.map { ($0.0, Double($0.1)) })
        writer.gauge(
            "cistern_worker_queue_bytes", "Bytes of content in memory for the tasks of each worker thread.",
            workers.map { ($0.0, Double($0.2)) })
    }

    /// A bound of the histogram. No work should block a loop for more than 2 ms.
    static let stallMicroseconds: Int64 = 2_048

    /// Writes nothing if there is no target, and never was one.
    static func notifications(_ notifications: MetricsSnapshot.Notifications, _ writer: inout MetricsWriter) {
        guard notifications.counts.contains(where: { !$0.value.isEmpty }) else { return }
        for (outcome, help) in [
            ("sent", "Delivered notifications, by target and event."),
            ("failed", "Notifications that a target rejected, or that could not be delivered within an hour, by target and event."),
            (
                "dropped",
                "Notifications that were not delivered because of a full queue, the limit of an hour or the end of the process, by target and event."
            ),
        ] {
            writer.counter(
                "cistern_notifications_\(outcome)", help,
                (notifications.counts[outcome] ?? []).map { ("target=\"\($0.target)\",event=\"\($0.event)\"", Double($0.count)) })
        }
        writer.gauge(
            "cistern_notifications_waiting", "Notifications that wait for their delivery, by target.",
            notifications.waiting.map { ("target=\"\($0.target)\"", Double($0.count)) })
    }

    static func process(_ snapshot: MetricsSnapshot, _ writer: inout MetricsWriter) {
        let process = snapshot.process
        writer.gauge(
            "cistern_build_info", "Versions of Cistern and of its libraries, as labels.",
            [(([("version", snapshot.version)] + snapshot.libraries).map { "\($0.0)=\"\($0.1)\"" }.joined(separator: ","), 1)])
        writer.gauge(
            "cistern_config_hash", "Hash of the settings in effect, without secrets. Equal settings have equal hashes.",
            Double(snapshot.settingsHash))
        snapshot.limits.write(to: &writer)
        writer.counter(
            "cistern_clock_steps", "Times that the machine's clock was set by a second or more, or the machine was suspended.",
            [("direction=\"forward\"", Double(snapshot.clockSteps.forward)), ("direction=\"back\"", Double(snapshot.clockSteps.back))])
        writer.counter("process_cpu_seconds", "CPU time used.", [("", process.cpuSeconds)])
        writer.gauge("process_resident_memory_bytes", "Resident memory.", Double(process.residentBytes))
        writer.gauge("process_virtual_memory_bytes", "Virtual memory.", Double(process.virtualBytes))
        writer.gauge("process_open_fds", "Open file descriptors.", Double(process.openDescriptors))
        writer.gauge("process_max_fds", "Maximum number of file descriptors.", Double(process.maximumDescriptors))
        writer.gauge("process_start_time_seconds", "When the process started, in seconds since 1970.", process.startTime)
    }
}
