// Tests the declarations of figures: each has a sample on /metrics and is counted somewhere.

import CachePolicy
import Decisions
import Explanation
import TestSupport
import Testing

@testable import Figures

@Suite("Metric declarations")
struct FigureTests {
    @Test("each figure is exactly one sample of one family")
    func declared() {
        let figures = Figure.families.flatMap { $0.samples.map(\.figure) }
        #expect(figures.count == Set(figures).count && Set(figures) == Set(Figure.allCases))
        #expect(Figure.families.count == Set(Figure.families.map(\.name)).count)
        for family in Figure.families {
            #expect(Set(family.samples.map(\.labels)).count == family.samples.count, "\(family.name)")
            #expect(family.samples.count == 1 || family.samples.allSatisfy { !$0.labels.isEmpty }, "\(family.name)")
        }
    }

    @Test("each labelled figure and histogram has a unique name and a unique label for each value")
    func labelled() {
        let shown = LabelledFigure.allCases.filter { $0.declaration.shown != .none }
        let names = Figure.families.map(\.name) + shown.map(\.declaration.name) + HistogramFigure.allCases.map(\.declaration.name)
        #expect(names.count == Set(names).count)
        for figure in LabelledFigure.allCases {
            let values = MetricNames.values(of: figure).filter { !$0.isEmpty }
            #expect(values.count == Set(values).count, "\(figure)")
        }
    }

    @Test("a sum includes each figure")
    func sum() {
        var (one, other) = (Figures(), Figures())
        for figure in Figure.allCases { (one[figure], other[figure]) = (figure.rawValue + 1, 1_000) }
        one.add(other)
        #expect(Figure.allCases.allSatisfy { one[$0] == $0.rawValue + 1_001 })
    }

    @Test("a sum includes each labelled figure and histogram, with the latest exemplar")
    func labelledSum() {
        let (late, early) = (Exemplar(high: 1, low: 1, value: 3, wall: 9), Exemplar(high: 1, low: 2, value: 3, wall: 4))
        var (one, other) = (LabelledFigures(), LabelledFigures())
        for figure in LabelledFigure.allCases {
            one.count(figure, figure.rawValue, by: 1)
            other.count(figure, figure.rawValue + 1, by: 2)
        }
        for figure in HistogramFigure.allCases {
            one.observe(figure, 1, 3)
            other.observe(figure, 2, 3)
            one.note(early, of: figure, 1)
            other.note(late, of: figure, 1)
        }
        one.add(other)
        for figure in LabelledFigure.allCases {
            #expect(one[figure, figure.rawValue] == 1 && one[figure, figure.rawValue + 1] == 2 && one.sum(figure) == 3, "\(figure)")
        }
        for figure in HistogramFigure.allCases {
            #expect((0...3).map { one.histogram(figure, $0).total } == [0, 1, 1, 0], "\(figure)")
            #expect(figure.bounds.indices.contains { one.exemplars(figure, 1)[$0] == late }, "\(figure)")
        }
    }

    @Test("a rescue counts in both of its figures, and in neither if its client disconnected first")
    func unsentRescue() {
        for (result, count) in [(CacheResult.rescued, UInt64(1)), (.error, 0)] {
            var (figures, exchange) = (LabelledFigures(), ExchangeRecord(result, .get, status: 200))
            exchange.reasons.sharedRescuePermission = .ownCookies
            exchange.upstream.failure = .slow
            figures.record(exchange)
            #expect(figures.sum(.rescued) == count && figures.sum(.rescuedWithShared) == count, "\(result)")
        }
    }

    @Test("each figure is counted or set outside of its declaration")
    func counted() throws {
        let sources = String(#filePath.dropLast("Tests/FiguresTests/FigureTests.swift".utf8.count)) + "Sources"
        let text = try TestTools.swiftFiles(in: sources).map { try TestTools.read($0) }.joined()
        let isCounted = { (figure: String) in
            ["[.\(figure)]", "count(.\(figure),", "count(.\(figure))"].contains { text.contains($0) }
        }
        for figure in Figure.allCases { #expect(isCounted("\(figure)"), "nothing counts \(figure)") }
        for figure in LabelledFigure.allCases { #expect(isCounted("\(figure)"), "nothing counts \(figure)") }
        for figure in HistogramFigure.allCases { #expect(text.contains("observe(.\(figure),"), "nothing observes \(figure)") }
    }
}
