// Tests of counters, their sums and text form, and of the access log's file.

import CacheStore
import Dispatch
import Explanation
import Glibc
import TestSupport
import Testing

@testable import Figures

@Suite("Metrics")
struct CountingTests {
    private func record(_ result: CacheResult, _ status: UInt16, bytes: Int = 0, source: ContentSource = .upstream) -> ExchangeRecord {
        var record = ExchangeRecord(result, .get, status: status)
        record.bodyBytes = bytes
        record.source = source
        return record
    }

    @Test("a value equal to a bound counts below it, and values above the last bound count separately")
    func histogram() {
        var histogram = Histogram(bounds: [1, 10])
        for value in [0, 1, 2, 10, 11, 1_000_000] as [Int64] { histogram.observe(value) }
        #expect((0..<3).map { histogram.counts[$0] } == [2, 2, 2])
        #expect(histogram.sum == 1_000_024)
        var other = Histogram(bounds: [1, 10])
        other.observe(5)
        other.merge(histogram)
        #expect(other.total == 7)
        #expect(other.counts[1] == 3)
    }

    @Test("figures of shards are summed, and every status belongs to a class")
    func merging() {
        var (one, two) = (LabelledFigures(), LabelledFigures())
        one.record(record(.hit, 200, bytes: 10, source: .store))
        two.record(record(.hit, 200, bytes: 5, source: .store))
        two.record(record(.miss, 999, bytes: 7))
        two.record(record(.error, 42, bytes: 3, source: .own))
        one.add(two)
        let labels = MetricNames.values(of: .requests)
        let counted = Dictionary(uniqueKeysWithValues: labels.enumerated().map { ($1, one[.requests, $0]) })
        #expect(counted["result=\"hit\",method=\"GET\",status_class=\"2xx\""] == 2)
        #expect(counted["result=\"miss\",method=\"GET\",status_class=\"5xx\""] == 1)
        #expect(counted["result=\"error\",method=\"GET\",status_class=\"1xx\""] == 1)
        #expect(one.sum(.requests) == 4)
        #expect(ContentSource.allCases.map { one[.responseBytes, $0.rawValue] } == [15, 7, 3])
    }

    @Test("metrics are written in the Prometheus and OpenMetrics formats")
    func writing() {
        var histogram = Histogram(bounds: [1_000, 2_500_000])
        for value in [500, 2_000_000, 9_000_000] as [Int64] { histogram.observe(value) }
        for (format, name, end) in [(MetricsFormat.prometheus, "a_total", ""), (.openMetrics, "a", "# EOF\n")] {
            var writer = MetricsWriter(format: format)
            writer.counter("a", "Help.", 3)
            writer.gauge("b", "Help.", [("x=\"1\"", 0.5)])
            writer.histogram("c_seconds", "Help.", scale: 1e-6, [("x=\"1\"", histogram)])
            #expect(
                String(decoding: writer.finish(), as: UTF8.self) == """
                    # HELP \(name) Help.
                    # TYPE \(name) counter
                    a_total 3
                    # HELP b Help.
                    # TYPE b gauge
                    b{x="1"} 0.5
                    # HELP c_seconds Help.
                    # TYPE c_seconds histogram
                    c_seconds_bucket{x="1",le="0.001"} 1
                    c_seconds_bucket{x="1",le="2.5"} 2
                    c_seconds_bucket{x="1",le="+Inf"} 3
                    c_seconds_sum{x="1"} 11.0005
                    c_seconds_count{x="1"} 3

                    """ + end)
        }
    }

    @Test("the oldest age covers the last five minutes, also after the clock is set back")
    func oldest() {
        func rescued(_ ages: OldestAges, _ now: Int64) -> Int64? { ages.latest(at: now)[CacheResult.rescued.rawValue] }
        var ages = OldestAges()
        let start: Int64 = 1_700_000_000_000
        #expect(rescued(ages, start) == nil)
        ages.note(7, .rescued, at: start)
        ages.note(900, .hit, at: start)
        ages.note(5, .rescued, at: start + 29_999)
        #expect(rescued(ages, start + 300_000) == 7)
        ages.note(3, .rescued, at: start + 60_000)
        #expect(rescued(ages, start + 329_999) == 7)
        #expect(rescued(ages, start + 330_000) == 3)
        #expect(rescued(ages, start + 1_000_000) == nil)
        ages.note(2, .rescued, at: start - 3_600_000)
        #expect(rescued(ages, start - 3_600_000) == 2)
        ages.note(0, .rescued, at: start + 1)
        #expect(rescued(ages, start + 1) == 0)
    }

    @Test("each histogram bucket keeps its latest exemplar, which only OpenMetrics includes")
    func exemplars() {
        var histogram = Histogram(bounds: [1_000, 2_500_000])
        var (one, other) = (Exemplars(), Exemplars())
        for value in [500, 2_000_000, 9_000_000] as [Int64] { histogram.observe(value) }
        one.note(Exemplar(high: 1, low: 10, value: 500, wall: 1_500), in: histogram.bounds)
        one.note(Exemplar(high: 1, low: 11, value: 9_000_000, wall: 2_000), in: histogram.bounds)
        other.note(Exemplar(high: 1, low: 12, value: 1_000, wall: 2_500), in: histogram.bounds)
        other.note(Exemplar(high: 1, low: 13, value: 8_000_000, wall: 1_000), in: histogram.bounds)
        one.merge(other)
        var empty = Exemplars()
        empty.merge(one)
        for (format, first, last) in [
            (MetricsFormat.prometheus, "", ""),
            (
                .openMetrics, " # {trace_id=\"0000000000000001000000000000000c\"} 0.001 2.5",
                " # {trace_id=\"0000000000000001000000000000000b\"} 9 2"
            ),
        ] {
            var writer = MetricsWriter(format: format)
            writer.histogram("c_seconds", "Help.", scale: 1e-6, [("", histogram, empty)])
            let lines = String(decoding: writer.finish(), as: UTF8.self).split(separator: "\n").dropFirst(2)
            #expect(
                lines.prefix(3) == [
                    "c_seconds_bucket{le=\"0.001\"} 1\(first)", "c_seconds_bucket{le=\"2.5\"} 2", "c_seconds_bucket{le=\"+Inf\"} 3\(last)",
                ])
        }
    }

    @Test("the Accept field selects the format")
    func formats() {
        #expect(MetricsFormat(accept: nil) == .prometheus)
        #expect(MetricsFormat(accept: Array("text/plain".utf8)[...]) == .prometheus)
        #expect(MetricsFormat(accept: Array("application/openmetrics-text;version=1.0.0".utf8)[...]) == .openMetrics)
    }
}

@Suite("Access log")
struct AccessLogTests {
    private func read(_ path: String) -> String { (try? TestTools.read(path)) ?? "" }

    @Test("lines are written to the file, and to a new file after rotation")
    func rotation() throws {
        let directory = TestTools.temporaryDirectory()
        let path = directory.path + "/access.log"
        let log = try #require(AccessLog(path: path, format: .json))
        log.append(Array("one\n".utf8))
        rename(path, path + ".1")
        log.reopen()
        while access(path, F_OK) != 0 {}
        log.append(Array("two\n".utf8))
        log.finish()
        #expect(read(path + ".1") == "one\n")
        #expect(read(path) == "two\n")
        #expect(log.dropped == 0)
    }

    @Test("if the new file cannot be opened, the old one is used and the error is reported")
    func failedRotation() throws {
        let directory = TestTools.temporaryDirectory()
        let path = directory.path + "/access.log"
        let log = try #require(AccessLog(path: path, format: .json))
        rename(path, path + ".1")
        mkdir(path, 0o700)
        let told = DispatchSemaphore(value: 0)
        log.reopen { code in if code == EISDIR { told.signal() } }
        #expect(told.wait(timeout: .now() + .seconds(20)) == .success)
        rmdir(path)
        log.append(Array("one\n".utf8))
        log.finish()
        #expect(read(path + ".1") == "one\n")
    }

    @Test("lines that exceed the buffer or cannot be written are dropped and counted")
    func dropping() throws {
        let directory = TestTools.temporaryDirectory()
        let log = try #require(AccessLog(path: directory.path + "/access.log", format: .json))
        log.append([UInt8](repeating: 120, count: 5 << 20))
        #expect(log.dropped == 1)
        log.finish()
        let full = try #require(AccessLog(path: "/dev/full", format: .json))
        for _ in 0..<3 { full.append(Array("line\n".utf8)) }
        full.finish()
        #expect(full.dropped == 3)
    }

    @Test("a file that cannot be opened gives no log")
    func unwritable() {
        #expect(AccessLog(path: "/nowhere/at/all", format: .json) == nil)
    }
}

@Suite("Usable cores")
struct UsableCoresTests {
    @Test(
        "the CPU quota of a control group is rounded up to whole cores",
        arguments: [
            ("max 100000\n", nil), ("100000 100000\n", 1), ("150000 100000\n", 2), ("5000 100000", 1), ("200001 100000", 3),
            ("", nil), ("100000", nil), ("x y", nil), ("0 100000", nil), ("100000 0", nil), ("-1 100000", nil),
        ] as [(String, Int?)])
    func share(limit: String, cores: Int?) { #expect(UsableCores.share(limit) == cores) }

    @Test("the limits of a control group and of its parents apply")
    func files() {
        #expect(ControlGroup.directories(group: "4:memory:/x\n0::/\n") == ["/sys/fs/cgroup"])
        #expect(
            ControlGroup.directories(group: "0::/a.slice/b.service\n") == [
                "/sys/fs/cgroup", "/sys/fs/cgroup/a.slice", "/sys/fs/cgroup/a.slice/b.service",
            ])
        #expect(ControlGroup.directories(group: "4:memory:/x\n").isEmpty)
        #expect(UsableMemory.limit("max\n") == nil && UsableMemory.limit("268435456\n") == 256 << 20 && UsableMemory.limit("") == nil)
        #expect(UsableMemory.bytes > 16 << 20)
        #expect(1...Int(sysconf(Int32(_SC_NPROCESSORS_CONF))) ~= UsableCores.count)
    }
}
