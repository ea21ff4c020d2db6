// Learned facts about an API's unknown fields: which change with each request, which stored responses they separate, and which prevented a
// hit. In memory only. Until it is learned again after a restart, more responses than necessary are stored separately.

import CachePolicy
import HTTPCore
import Reactor
import Synchronization

/// A fact about a field that was found for the first time.
public struct FieldFinding: Sendable, Equatable {
    public enum Kind: String, Sendable, CaseIterable {
        /// A response is stored for another value of the field, and could not be used.
        case keptCopyBack = "kept_copy_back"
        /// The field's values never repeat, so it does not separate responses.
        case changes
    }

    public let name: String
    public let kind: Kind
}

/// Shared by all shards; not used on the hot path of requests without unknown fields.
public final class UnknownFieldMemory: Sendable {
    /// Maximum number of reported names, in total and for one client.
    static let reportLimit = 64
    static let reportsPerClient = 8
    /// Maximum number of examined fields of one request.
    static let fieldLimit = 16

    fileprivate struct Report {
        /// The client that caused the report.
        let client: UInt64
        let name: ByteKey
        /// Number of requests by kind of finding.
        var counts = [Int](repeating: 0, count: FieldFinding.Kind.allCases.count)
    }

    fileprivate struct State {
        var changing = ChangingFields()
        var variants = FieldVariants()
        var equal = EqualResponses()
        var reports: [Report] = []
        /// New findings that were not returned yet.
        var findings: [FieldFinding] = []
    }

    private let state = Mutex(State())
    private let records = Atomic(false)

    public init() {}

    /// Whether `note` may find anything for a request without unknown fields: a response is stored for others. Never reset.
    public var hasRecords: Bool { records.load(ordering: .relaxed) }

    /// Names in lower case, with the kind of finding and the number of requests.
    public var reports: [(name: String, kind: FieldFinding.Kind, count: Int)] {
        state.withLock(\.reports).flatMap { report in
            zip(FieldFinding.Kind.allCases, report.counts).filter { $0.1 > 0 }.map {
                (String(decoding: report.name.bytes, as: UTF8.self), $0.0, $0.1)
            }
        }
    }

    /// Returns the name of a reported field, by the number that `note` returned; nil for 0.
    public func name(ofField number: UInt8) -> String? {
        guard number > 0 else { return nil }
        let slot = Int(number) - 1
        return state.withLock { $0.reports.indices.contains(slot) ? String(decoding: $0.reports[slot].name.bytes, as: UTF8.self) : nil }
    }

    /// Returns for each line of a request whether its field changes with each request.
    /// - Parameter notes: whether this is the first lookup of the request, so that its values are recorded.
    func judge(_ lines: [UnknownFieldLine], by client: UInt64, notes: Bool) -> [Bool] {
        let names = lines.map { ByteKey($0.name) }
        return state.withLock { state in
            if notes {
                for (name, line) in zip(names, lines).prefix(Self.fieldLimit) {
                    let value = ContentHash.number(of: line.value.span)
                    guard state.changing.note(name, value, by: client) else { continue }
                    state.report(name, .changes, by: client)?.finding.map { state.findings.append($0) }
                }
            }
            return names.map { state.changing.changes($0, for: client) }
        }
    }

    /// Records the response to a request with changing fields.
    /// - Parameters:
    ///   - response: number of the response.
    ///   - key: key without the values of these fields.
    /// - Returns: true if the response may be stored under this key, because several values got an equal one.
    func noteResponse(_ response: UInt64, to unknown: UnknownFields, under key: [UInt8]) -> Bool {
        let key = Self.number(of: key)
        let values = Self.values(of: unknown.exact).filter { unknown.changing.contains($0.name.bytes) }.map(\.value)
        return state.withLock { $0.equal.note(response, to: values, under: key) }
    }

    /// Records that a response was stored for a request's unknown fields.
    /// - Returns: hash of the variant to remove; nil if none.
    func noteStored(_ unknown: UnknownFields, under key: [UInt8], by client: UInt64) -> UInt64? {
        records.store(true, ordering: .relaxed)
        let variant = FieldVariants.Variant(hash: unknown.hash, client: client, fields: Self.keptValues(of: unknown))
        return state.withLock { $0.variants.note(variant, of: Self.number(of: key)) }
    }

    /// Records, once per request, whether it found a stored response.
    /// - Returns: findings since the last call, and the number of a field that prevented a hit; 0 if none did.
    public func note(_ lookUp: Finding, by client: UInt64) -> (findings: [FieldFinding], field: UInt8) {
        let (unknown, isMiss) = (lookUp.keys.unknownFields, lookUp.result.found == nil)
        let fields = isMiss ? unknown.map(Self.keptValues) ?? [] : []
        return state.withLock { state in
            defer { state.findings = [] }
            guard isMiss else { return (state.findings, 0) }
            // A response for requests without unknown fields is stored.
            var names = lookUp.basis.isStoredForPlainOnly ? fields.map(\.name) : []
            if names.isEmpty {
                let key = Self.number(of: Array(lookUp.keys.plainOwn))
                names = state.variants.differences(of: fields, hash: unknown?.hash ?? 0, from: key)
            }
            var field: UInt8 = 0
            for name in names where name.bytes != UnknownFields.path {
                guard let report = state.report(name, .keptCopyBack, by: client) else { continue }
                if field == 0 { field = UInt8(clamping: report.slot + 1) }
                report.finding.map { state.findings.append($0) }
            }
            return (state.findings, field)
        }
    }

    private static func number(of key: [UInt8]) -> UInt64 { ContentHash.number(of: key.span) }

    private static func values(of exact: [UInt8]) -> [FieldVariants.NamedValue] {
        let parts = KeyParts.read(exact) ?? []
        return stride(from: 0, to: min(parts.count - 1, 2 * fieldLimit), by: 2).map {
            let value = parts[$0 + 1]
            return FieldVariants.NamedValue(ByteKey(Array(parts[$0])), ContentHash.number(of: value.span))
        }
    }

    /// Returns the fields that do not change with each request.
    private static func keptValues(of unknown: UnknownFields) -> [FieldVariants.NamedValue] {
        values(of: unknown.exact).filter { !unknown.changing.contains($0.name.bytes) }
    }
}

extension UnknownFieldMemory.State {
    /// - Returns: nil if the limit on names is reached.
    fileprivate mutating func report(
        _ name: ByteKey, _ kind: FieldFinding.Kind, by client: UInt64
    ) -> (slot: Int, finding: FieldFinding?)? {
        let index = FieldFinding.Kind.allCases.firstIndex(of: kind) ?? 0
        if let slot = reports.firstIndex(where: { $0.name == name }) {
            reports[slot].counts[index] += 1
            let isNew = reports[slot].counts[index] == 1
            return (slot, isNew ? FieldFinding(name: String(decoding: name.bytes, as: UTF8.self), kind: kind) : nil)
        }
        guard reports.count < UnknownFieldMemory.reportLimit,
            reports.count(where: { $0.client == client }) < UnknownFieldMemory.reportsPerClient
        else { return nil }
        reports.append(UnknownFieldMemory.Report(client: client, name: name))
        return report(name, kind, by: client)
    }
}
