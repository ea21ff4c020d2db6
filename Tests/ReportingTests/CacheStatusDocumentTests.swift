// Tests that Configuration/Reference/responses.md describes each cause of a rescue and each reason for not storing.

import CachePolicy
import Explanation
import TestSupport
import Testing

@Suite("Documentation of Cache-Status")
struct CacheStatusDocumentTests {
    private static func page() throws -> [Substring] {
        let root = #filePath.dropLast("Tests/ReportingTests/CacheStatusDocumentTests.swift".utf8.count)
        return try TestTools.read(root + "Configuration/Reference/responses.md").split(separator: "\n", omittingEmptySubsequences: false)
    }

    /// Code words in the first column of a table.
    private static func words(under head: String, _ lines: [Substring]) throws -> [String] {
        let place = try #require(lines.firstIndex(of: "| \(head) | |"))
        let columns = lines[(place + 2)...].prefix { $0.hasPrefix("| `") }.map { $0.dropFirst(2).prefix { $0 != "|" } }
        return columns.flatMap { column in column.split(separator: "`").filter { $0.first?.isLetter == true }.map(String.init) }
    }

    @Test("the document describes exactly the existing rescue causes")
    func causes() throws {
        // Two modules use one word for this cause.
        #expect(try Self.words(under: "Cause of a rescue", Self.page()).sorted() == Set(MetricNames.rescueCauses).sorted())
    }

    @Test("the document describes exactly the existing reasons for not storing")
    func reasons() throws {
        #expect(try Self.words(under: "Not stored", Self.page()).sorted() == NotStoredReason.allCases.map(\.rawValue).sorted())
    }

    @Test("the document describes exactly the reasons of Cistern-Stale without a failure")
    func staleReasons() throws {
        let modes = ServingMode.allCases.filter(\.servesAnyAge).map(\.rawValue)
        let reasons = [StaleField.whileRevalidating, StaleField.accepted] + modes
        #expect(try Self.words(under: "Other reasons", Self.page()).sorted() == reasons.sorted())
    }

    @Test("permissions for shared responses and serving modes are described")
    func details() throws {
        let text = try Self.page().joined(separator: "\n")
        for permission in SharedRescuePermission.allCases {
            #expect(text.contains("`/\(permission.isOfSameUser ? "" : "shared:")\(permission.rawValue)`"), "\(permission)")
        }
        for detail in [CacheStatus.marksNotWritten, CacheStatus.nodesNotTold] { #expect(text.contains("`\(detail)`")) }
        for mode in ServingMode.allCases where mode.servesAnyAge { #expect(text.contains("`\(mode.rawValue)`"), "\(mode)") }
    }
}
