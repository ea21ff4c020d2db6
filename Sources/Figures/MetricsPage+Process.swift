// Metrics of the process at /metrics: loops, clocks, limits, settings and build.

extension MetricsPage {
    static func loops(_ loops: [MetricsSnapshot.LoopLine], _ writer: inout MetricsWriter) {
        writer.gauge(
            "cistern_loop_longest_wait_seconds", "The longest that an event waited for others on its loop, in the last minute.",
            loops.map { ("shard=\"\($0.shard)\"", Double($0.longestWait) * 1e-6) })
        writer.histogram(
            "cistern_loop_wait_seconds", "How long events waited at most: the time that each batch of events took.", scale: 1e-6,
            loops.map { ("shard=\"\($0.shard)\"", $0.waits) })
        writer.counter(
            "cistern_loop_stalls", "Batches of events that took longer than 2.048 ms, so that other events waited for them.",
            loops.map { ("shard=\"\($0.shard)\"", Double($0.waits.count(above: Self.stallMicroseconds))) })
        let workers = loops.flatMap { loop in loop.workers.map { ("shard=\"\(loop.shard)\",worker=\"\($0.name)\"", $0.queue, $0.bytes) } }
        writer.gauge(
            "cistern_worker_queue", "Pieces of work that wait for a worker beside a loop, or are being done.",
            workers.map { ($0.0, Double($0.1)) })
        writer.gauge(
            "cistern_worker_queue_bytes", "Bytes of content that are held in memory for them.", workers.map { ($0.0, Double($0.2)) })
    }

    /// A bound of the histogram. No work should block a loop for more than 2 ms.
    static let stallMicroseconds: Int64 = 2_048

    static func process(_ snapshot: MetricsSnapshot, _ writer: inout MetricsWriter) {
        let process = snapshot.process
        writer.gauge(
            "cistern_build_info", "The version of the program and of what it is built with, as labels.",
            [(([("version", snapshot.version)] + snapshot.libraries).map { "\($0.0)=\"\($0.1)\"" }.joined(separator: ","), 1)])
        writer.gauge(
            "cistern_config_hash", "A number made of the settings in use, without secrets: equal where the settings are equal.",
            Double(snapshot.settingsHash))
        snapshot.limits.write(to: &writer)
        writer.counter(
            "cistern_clock_steps", "How often the clock of the machine was set by a second or more, or stood still with the machine.",
            [("direction=\"forward\"", Double(snapshot.clockSteps.forward)), ("direction=\"back\"", Double(snapshot.clockSteps.back))])
        writer.counter("process_cpu_seconds", "CPU time used.", [("", process.cpuSeconds)])
        writer.gauge("process_resident_memory_bytes", "Resident memory.", Double(process.residentBytes))
        writer.gauge("process_virtual_memory_bytes", "Virtual memory.", Double(process.virtualBytes))
        writer.gauge("process_open_fds", "Open descriptors.", Double(process.openDescriptors))
        writer.gauge("process_max_fds", "Most descriptors allowed.", Double(process.maximumDescriptors))
        writer.gauge("process_start_time_seconds", "When the process started, in seconds since 1970.", process.startTime)
    }
}
