// Tests that Configuration/Reference/log-fields.md has a row for each field of the access log.

import Figures
import TestSupport
import Testing

@Suite("Documentation of the access log")
struct AccessFieldsDocumentTests {
    @Test("the document describes exactly the existing fields")
    func fields() throws {
        let root = #filePath.dropLast("Tests/ReportingTests/AccessFieldsDocumentTests.swift".utf8.count)
        let lines = try TestTools.read(root + "Configuration/Reference/log-fields.md").split(
            separator: "\n", omittingEmptySubsequences: false)
        let head = try #require(lines.firstIndex(of: "| Field | |"))
        let columns = lines[(head + 2)...].prefix { $0.hasPrefix("| `") }.map { $0.dropFirst(2).prefix { $0 != "|" } }
        let described = columns.flatMap { column in column.split(separator: "`").filter { $0.first?.isLetter == true }.map(String.init) }
        #expect(described.sorted() == AccessField.allCases.map(\.rawValue).sorted())
    }
}
