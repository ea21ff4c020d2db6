/// Values of the `LabelledFigure`s and `HistogramFigure`s of one scope, on one event loop or summed. Arrays exist once they are counted in.
public struct LabelledFigures: Sendable {
    /// Stored inline, so that counting on the hot path follows one reference only. Must be at least as long as the enums' `allCases`.
    private var counts = InlineArray<32, [UInt64]>(repeating: [])
    private var histograms = InlineArray<8, [Histogram]>(repeating: [])
    private var latest = InlineArray<8, [Exemplars]>(repeating: [])

    public init() {}

    /// Number of counted events.
    /// - Parameter index: index of the label's value.
    public subscript(_ figure: LabelledFigure, _ index: Int = 0) -> UInt64 {
        let counts = counts[figure.rawValue]
        return index < counts.count ? counts[index] : 0
    }

    /// Sum over all values of the label.
    public func sum(_ figure: LabelledFigure) -> UInt64 { counts[figure.rawValue].reduce(0, +) }

    /// - Parameter index: index of the label's value.
    @inline(__always)
    public mutating func count(_ figure: LabelledFigure, _ index: Int = 0, by number: UInt64 = 1) {
        if index >= counts[figure.rawValue].count { grow(figure, to: index + 1) }
        counts[figure.rawValue][index] += number
    }

    /// Counts a case by its position.
    public mutating func count<Label: CaseIterable & Equatable>(_ figure: LabelledFigure, of label: Label, by number: UInt64 = 1) {
        for (index, other) in Label.allCases.enumerated() where other == label { return count(figure, index, by: number) }
    }

    @inline(never)
    private mutating func grow(_ figure: LabelledFigure, to count: Int) {
        counts[figure.rawValue] += Array(repeating: 0, count: count - counts[figure.rawValue].count)
    }

    /// The histogram; an empty one if nothing was observed.
    /// - Parameter index: index of the result; 0 for a histogram without results.
    public func histogram(_ figure: HistogramFigure, _ index: Int = 0) -> Histogram {
        let histograms = histograms[figure.rawValue]
        return index < histograms.count ? histograms[index] : Histogram(bounds: figure.bounds)
    }

    @inline(__always)
    public mutating func observe(_ figure: HistogramFigure, _ index: Int = 0, _ value: Int64) {
        if index >= histograms[figure.rawValue].count { grow(figure, to: index + 1) }
        histograms[figure.rawValue][index].observe(value)
    }

    @inline(never)
    private mutating func grow(_ figure: HistogramFigure, to count: Int) {
        let missing = count - histograms[figure.rawValue].count
        histograms[figure.rawValue] += Array(repeating: Histogram(bounds: figure.bounds), count: missing)
    }

    /// Records the trace of an observed value.
    public mutating func note(_ exemplar: Exemplar, of figure: HistogramFigure, _ index: Int = 0) {
        extend(figure, to: index + 1)
        latest[figure.rawValue][index].note(exemplar, in: figure.bounds)
    }

    private mutating func extend(_ figure: HistogramFigure, to count: Int) {
        let missing = max(0, count - latest[figure.rawValue].count)
        latest[figure.rawValue] += Array(repeating: Exemplars(), count: missing)
    }

    func exemplars(_ figure: HistogramFigure, _ index: Int) -> Exemplars {
        let latest = latest[figure.rawValue]
        return index < latest.count ? latest[index] : Exemplars()
    }

    /// Adds values to separate arrays, so that the loop's arrays stay uniquely referenced and are counted in place.
    public mutating func add(_ other: LabelledFigures) {
        for figure in LabelledFigure.allCases {
            for (index, count) in other.counts[figure.rawValue].enumerated() { self.count(figure, index, by: count) }
        }
        for figure in HistogramFigure.allCases {
            let figureIndex = figure.rawValue
            let (histograms, latest) = (other.histograms[figureIndex], other.latest[figureIndex])
            if !histograms.isEmpty, self.histograms[figureIndex].count < histograms.count { grow(figure, to: histograms.count) }
            for (index, histogram) in histograms.enumerated() { self.histograms[figureIndex][index].merge(histogram) }
            extend(figure, to: latest.count)
            for (index, exemplars) in latest.enumerated() { self.latest[figureIndex][index].merge(exemplars) }
        }
    }
}
