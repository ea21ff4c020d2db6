// Declarations of figures: each has a sample on the page, and something counts it.

import Figures
import Glibc
import TestSupport
import Testing

@Suite("Figures")
struct FigureTests {
    @Test("each figure is one sample of one family")
    func declared() {
        let figures = Figure.families.flatMap { $0.samples.map(\.figure) }
        #expect(figures.count == Set(figures).count && Set(figures) == Set(Figure.allCases))
        #expect(Figure.families.count == Set(Figure.families.map(\.name)).count)
        for family in Figure.families {
            #expect(Set(family.samples.map(\.labels)).count == family.samples.count, "\(family.name)")
            #expect(family.samples.count == 1 || family.samples.allSatisfy { !$0.labels.isEmpty }, "\(family.name)")
        }
    }

    private static func paths(_ pattern: String) -> [String] {
        var found = glob_t()
        defer { globfree(&found) }
        guard glob(pattern, 0, nil, &found) == 0 else { return [] }
        return (0..<Int(found.gl_pathc)).compactMap { found.gl_pathv[$0].map { String(cString: $0) } }
    }

    @Test("a sum has each figure")
    func sum() {
        var (one, other) = (Figures(), Figures())
        for figure in Figure.allCases { (one[figure], other[figure]) = (figure.rawValue + 1, 1_000) }
        one.add(other)
        #expect(Figure.allCases.allSatisfy { one[$0] == $0.rawValue + 1_001 })
    }

    @Test("each figure is counted or set outside of its declaration")
    func counted() throws {
        let sources = String(#filePath.dropLast("Tests/FiguresTests/FigureTests.swift".utf8.count)) + "Sources"
        let text = try ["*/*.swift", "*/*/*.swift"].flatMap { Self.paths("\(sources)/\($0)") }.map { try TestTools.read($0) }.joined()
        for figure in Figure.allCases { #expect(text.contains("[.\(figure)]"), "nothing counts \(figure)") }
    }
}
