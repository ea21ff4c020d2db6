/// Values of all figures of one owner. An event loop, a client of an upstream and others have their own, and a scrape adds them up.
public struct Figures: Sendable {
    /// Stored inline, so that counting on the hot path touches no other object. Must be at least as long as `Figure.allCases`.
    private var values = InlineArray<96, Int>(repeating: 0)
    public var labelled = LabelledFigures()

    public init() {}

    public subscript(_ figure: Figure) -> Int {
        get { values[figure.rawValue] }
        set { values[figure.rawValue] = newValue }
    }

    public mutating func add(_ other: Figures) {
        for index in values.indices { values[index] += other.values[index] }
        labelled.add(other.labelled)
    }
}
