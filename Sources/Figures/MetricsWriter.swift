// Writes metrics as text, in Prometheus' format 0.0.4 or in OpenMetrics 1.0. OpenMetrics omits `_total` in the type line of counters and
// ends with `# EOF`.

public enum MetricsFormat: Sendable {
    case prometheus, openMetrics

    /// Maximum number of bytes of Accept that are examined.
    private static let acceptBytes = 1_024

    public var contentType: StaticString {
        switch self {
        case .prometheus: "text/plain; version=0.0.4; charset=utf-8"
        case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
        }
    }

    /// Selects OpenMetrics if the client accepts it, as Prometheus does.
    public init(accept: ArraySlice<UInt8>?) {
        let text = accept.map { String(decoding: $0.prefix(Self.acceptBytes), as: UTF8.self) } ?? ""
        self = text.contains("application/openmetrics-text") ? .openMetrics : .prometheus
    }
}

public struct MetricsWriter {
    let format: MetricsFormat
    private(set) var text = ""
    /// Counts of the previous process, which are added to the written values.
    private let inherited: InheritedCounts.Counts
    /// Samples of the present family that were written.
    private var written: Set<String> = []

    init(format: MetricsFormat, inherited: InheritedCounts.Counts = InheritedCounts.Counts()) {
        (self.format, self.inherited) = (format, inherited)
    }

    /// - Parameter name: the name without `_total`.
    public mutating func counter(_ name: String, _ help: String, _ samples: [(labels: String, value: Double)]) {
        head(format == .openMetrics ? name : name + "_total", "counter", help)
        written = []
        for sample in samples { count(name + "_total", sample.labels, sample.value) }
        addInherited([name + "_total"])
    }

    /// Writes samples that only the previous process has counted.
    private mutating func addInherited(_ names: [String]) {
        for sample in names.flatMap({ inherited.labelled[$0] ?? [] }) where !written.contains(sample) {
            text += "\(sample) \(Self.number(inherited.values[sample] ?? 0))\n"
        }
    }

    public mutating func counter(_ name: String, _ help: String, _ value: UInt64) { counter(name, help, [("", Double(value))]) }

    public mutating func gauge(_ name: String, _ help: String, _ samples: [(labels: String, value: Double)]) {
        head(name, "gauge", help)
        for sample in samples { line(name, sample.labels, sample.value) }
    }

    public mutating func gauge(_ name: String, _ help: String, _ value: Double) { gauge(name, help, [("", value)]) }

    /// Writes all families of `Figure`.
    mutating func write(_ figures: Figures) {
        for family in Figure.families {
            let samples = family.samples.map { ($0.labels, Double(figures[$0.figure])) }
            switch family.kind {
            case .counter: counter(family.name, family.help, samples)
            case .gauge: gauge(family.name, family.help, samples)
            }
        }
    }

    /// - Parameter scale: factor from the histogram's unit to the metric's: 1e-6 for microseconds to seconds.
    mutating func histogram(_ name: String, _ help: String, scale: Double, _ samples: [(labels: String, histogram: Histogram)]) {
        histogram(name, help, scale: scale, samples.map { ($0.labels, $0.histogram, Exemplars()) })
    }

    /// - Parameter samples: histograms with exemplars. Prometheus' own format has no exemplars.
    mutating func histogram(
        _ name: String, _ help: String, scale: Double, _ samples: [(labels: String, histogram: Histogram, exemplars: Exemplars)]
    ) {
        head(name, "histogram", help)
        written = []
        for sample in samples {
            let prefix = sample.labels.isEmpty ? "" : sample.labels + ","
            var total: UInt64 = 0
            for (index, bound) in sample.histogram.bounds.enumerated() {
                total += sample.histogram.counts[index]
                count(
                    name + "_bucket", prefix + "le=\"\(Self.number(Double(bound) * scale))\"", Double(total),
                    suffix(sample.exemplars[index], scale))
            }
            count(
                name + "_bucket", prefix + "le=\"+Inf\"", Double(sample.histogram.total),
                suffix(sample.exemplars[sample.histogram.bounds.count], scale))
            count(name + "_sum", sample.labels, Double(sample.histogram.sum) * scale)
            count(name + "_count", sample.labels, Double(sample.histogram.total))
        }
        addInherited(["_bucket", "_sum", "_count"].map { name + $0 })
    }

    mutating func finish() -> [UInt8] {
        if format == .openMetrics { text += "# EOF\n" }
        return Array(text.utf8)
    }

    private mutating func head(_ name: String, _ type: String, _ help: String) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n"
    }

    private mutating func count(_ name: String, _ labels: String, _ value: Double, _ suffix: String = "") {
        guard !inherited.values.isEmpty else { return line(name, labels, value, suffix) }
        let sample = labels.isEmpty ? name : "\(name){\(labels)}"
        written.insert(sample)
        line(name, labels, value + (inherited.values[sample] ?? 0), suffix)
    }

    private mutating func line(_ name: String, _ labels: String, _ value: Double, _ suffix: String = "") {
        text += labels.isEmpty ? "\(name) \(Self.number(value))\(suffix)\n" : "\(name){\(labels)} \(Self.number(value))\(suffix)\n"
    }

    /// The exemplar after the sample's value.
    private func suffix(_ exemplar: Exemplar?, _ scale: Double) -> String {
        guard format == .openMetrics, let exemplar else { return "" }
        let seconds = Self.number(Double(exemplar.wall) / 1_000)
        return " # {trace_id=\"\(exemplar.trace)\"} \(Self.number(Double(exemplar.value) * scale)) \(seconds)"
    }

    private static func number(_ value: Double) -> String {
        if value == value.rounded(), abs(value) < 1e15 { return String(Int64(value)) }
        return "\((value * 1e9).rounded() / 1e9)"
    }
}
