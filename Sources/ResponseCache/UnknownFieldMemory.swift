// What is known of an API's unknown fields: which of them change with each request, which stored responses they separate, and which of them kept a copy
// from being used. In memory only: after a restart all of it is learnt anew, and until then more is kept apart than need be.

import CachePolicy
import HTTPCore
import Hashing
import Locking

/// What was found out of a field for the first time.
public struct FieldFinding: Sendable, Equatable {
    public enum Kind: String, Sendable, CaseIterable {
        /// A copy was stored for another value of it, and was not used.
        case keptCopyBack = "kept_copy_back"
        /// Its values never repeat, so it does not separate copies.
        case changes
    }

    public let name: String
    public let kind: Kind
}

/// Shared by all shards; off the path of requests that have no such fields.
public final class UnknownFieldMemory: Sendable {
    /// Names that are reported, of all clients and of one.
    static let reportLimit = 64
    static let reportsPerClient = 8
    /// Fields of one request that are looked at.
    static let fieldLimit = 16

    fileprivate struct Report {
        /// Whose request brought it up.
        let client: UInt64
        let name: ByteKey
        /// Requests, by what was found.
        var counts = [Int](repeating: 0, count: FieldFinding.Kind.allCases.count)
    }

    fileprivate struct State {
        var changing = ChangingFields()
        var variants = FieldVariants()
        var reports: [Report] = []
        /// Found, and not told yet.
        var findings: [FieldFinding] = []
    }

    private let state = Mutex(State())

    public init() {}

    /// Names in lower case, how many requests found it so, and what was found.
    public var reports: [(name: String, kind: FieldFinding.Kind, count: Int)] {
        state.withLock(\.reports).flatMap { report in
            zip(FieldFinding.Kind.allCases, report.counts).filter { $0.1 > 0 }.map {
                (String(decoding: report.name.bytes, as: UTF8.self), $0.0, $0.1)
            }
        }
    }

    /// The name of a reported field, by the number that `noteMissed` has returned; nil for 0.
    public func name(ofField number: UInt8) -> String? {
        guard number > 0 else { return nil }
        let place = Int(number) - 1
        return state.withLock { $0.reports.indices.contains(place) ? String(decoding: $0.reports[place].name.bytes, as: UTF8.self) : nil }
    }

    /// Of each line of a request, whether its field has another value in each request.
    /// - Parameter notes: the request is seen for the first time: what it sends counts.
    func judge(_ lines: [UnknownFieldLine], by client: UInt64, notes: Bool) -> [Bool] {
        let names = lines.map { ByteKey($0.name) }
        return state.withLock { state in
            if notes {
                for (name, line) in zip(names, lines).prefix(Self.fieldLimit) {
                    let value = line.value.withUnsafeBytes(ContentHash.number)
                    guard state.changing.note(name, value, by: client) else { continue }
                    state.report(name, .changes, by: client)?.finding.map { state.findings.append($0) }
                }
            }
            return names.map { state.changing.changes($0, for: client) }
        }
    }

    /// What was found since this was called last.
    func takeFindings() -> [FieldFinding] {
        state.withLock { state in
            defer { state.findings = [] }
            return state.findings
        }
    }

    /// Notes that a response has been stored for a request's unknown fields.
    /// - Returns: the hash of the variant that has to go for it.
    func noteStored(_ unknown: UnknownFields, under key: [UInt8], by client: UInt64) -> UInt64? {
        let variant = FieldVariants.Variant(hash: unknown.hash, client: client, fields: Self.keptValues(of: unknown))
        return state.withLock { $0.variants.note(variant, of: Self.number(of: key)) }
    }

    /// A request has found no copy.
    /// - Parameters:
    ///   - key: its own, without unknown fields.
    ///   - isBesidePlain: there is a copy for requests without any.
    /// - Returns: the number of a field that kept a copy from being used; 0 if none did.
    func noteMissed(_ unknown: UnknownFields?, under key: [UInt8], isBesidePlain: Bool, by client: UInt64) -> UInt8 {
        let fields = unknown.map(Self.keptValues) ?? []
        return state.withLock { state in
            var names = isBesidePlain ? fields.map(\.name) : []
            if names.isEmpty { names = state.variants.differences(of: fields, hash: unknown?.hash ?? 0, from: Self.number(of: key)) }
            var field: UInt8 = 0
            for name in names {
                guard let report = state.report(name, .keptCopyBack, by: client) else { continue }
                if field == 0 { field = UInt8(clamping: report.place + 1) }
                report.finding.map { state.findings.append($0) }
            }
            return field
        }
    }

    private static func number(of key: [UInt8]) -> UInt64 { key.withUnsafeBytes(ContentHash.number) }

    private static func values(of exact: [UInt8]) -> [FieldVariants.NamedValue] {
        let parts = KeyParts.read(exact) ?? []
        return stride(from: 0, to: min(parts.count - 1, 2 * fieldLimit), by: 2).map {
            FieldVariants.NamedValue(ByteKey(Array(parts[$0])), Array(parts[$0 + 1]).withUnsafeBytes(ContentHash.number))
        }
    }

    /// Without those that change.
    private static func keptValues(of unknown: UnknownFields) -> [FieldVariants.NamedValue] {
        values(of: unknown.exact).filter { !unknown.changing.contains($0.name.bytes) }
    }
}

extension UnknownFieldMemory.State {
    /// - Returns: nil if there is no room for another name.
    fileprivate mutating func report(
        _ name: ByteKey, _ kind: FieldFinding.Kind, by client: UInt64
    ) -> (place: Int, finding: FieldFinding?)? {
        let index = FieldFinding.Kind.allCases.firstIndex(of: kind) ?? 0
        if let place = reports.firstIndex(where: { $0.name == name }) {
            reports[place].counts[index] += 1
            let isNew = reports[place].counts[index] == 1
            return (place, isNew ? FieldFinding(name: String(decoding: name.bytes, as: UTF8.self), kind: kind) : nil)
        }
        guard reports.count < UnknownFieldMemory.reportLimit,
            reports.count(where: { $0.client == client }) < UnknownFieldMemory.reportsPerClient
        else { return nil }
        reports.append(UnknownFieldMemory.Report(client: client, name: name))
        return report(name, kind, by: client)
    }
}
