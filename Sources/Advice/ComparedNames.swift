// Finds arguments and fields that make no difference: compares the data of two targets, or variants, that differ only in one of them. Data
// of different partitions is never compared.

import CachePolicy
import HTTPCore

/// What was compared for one argument, or one field of Vary.
public struct ComparedName: Sendable, Equatable {
    public let name: [UInt8]
    public let isField: Bool
    /// Comparisons with equal data.
    public var equal: UInt32
    /// How often different data became the earlier data again with another value.
    public var different: UInt32
    /// Other comparisons with different data. The data may have changed at the upstream.
    public var doubtful: UInt32

    public init(_ name: [UInt8], isField: Bool, equal: UInt32 = 0, different: UInt32 = 0, doubtful: UInt32 = 0) {
        (self.name, self.isField, self.equal, self.different, self.doubtful) = (name, isField, equal, different, doubtful)
    }
}

struct ComparedNames {
    fileprivate struct Seen {
        /// Hash of everything except the name's value.
        var rest: UInt64 = 0
        var value: UInt64 = 0
        var data: UInt64 = 0
        var at: Int64 = 0
        /// Data before the last difference; 0 if there was none.
        var earlierData: UInt64 = 0
    }

    fileprivate struct One {
        var counts: ComparedName
        let nameHash: UInt64
        /// Values of secret arguments are not compared.
        let isSecret: Bool
        var comparedAt: Int64
        var seen = Array(repeating: Seen(), count: ComparedNames.seenLimit)
    }

    /// Maximum number of names of a path.
    static let nameLimit = 12
    /// Number of targets of a name that are remembered; a power of two.
    private static let seenLimit = 8
    /// Maximum time in milliseconds between two responses that are compared. Data may change later.
    private static let span: Int64 = 60_000
    /// Milliseconds after which a name without a comparison may be replaced.
    private static let idleLimit: Int64 = 600_000

    private var all: [One] = []
    /// Time of the last difference that is doubtful.
    private var doubtAt = Int64.min / 2

    /// What was compared, without secret arguments.
    var results: [ComparedName] { all.filter { !$0.isSecret }.map(\.counts) }

    /// Whether known data is to be compared also, because its return makes a difference certain.
    func isInDoubt(now: Int64) -> Bool { now - doubtAt <= Self.span }

    /// Compares the response with those to requests that differ in one argument. Targets with more than 16 arguments are not compared.
    /// - Parameters:
    ///   - data: hash of the data.
    ///   - isNew: whether equal data counts.
    ///   - rest: hash of path, partition and variant.
    mutating func compareArguments(of target: ArraySlice<UInt8>, _ data: UInt64, isNew: Bool, rest: UInt64, now: Int64) {
        guard var start = target.firstIndex(of: UInt8(ascii: "?")) else { return }
        var arguments = InlineArray<16, Argument>(repeating: Argument())
        var (count, sum): (Int, UInt64) = (0, 0)
        while start < target.endIndex {
            start += 1
            let end = target[start...].firstIndex(of: UInt8(ascii: "&")) ?? target.endIndex
            defer { start = end }
            guard start < end else { continue }
            guard count < arguments.count else { return }
            // An argument without `=` may be a value.
            let nameEnd = target[start..<end].firstIndex(of: UInt8(ascii: "=")) ?? start
            arguments[count] = Argument(
                name: start..<nameEnd, nameHash: ContentHash.number(of: target[start..<nameEnd].span),
                hash: ContentHash.number(of: target[start..<end].span))
            sum &+= arguments[count].hash
            count += 1
        }
        for index in 0..<count where !arguments[index].name.isEmpty {
            let argument = arguments[index]
            // An argument that occurs twice has several values.
            guard !(0..<count).contains(where: { $0 != index && arguments[$0].nameHash == argument.nameHash }) else { continue }
            compare(
                target[argument.name], argument.nameHash, isField: false, value: argument.hash, data, isNew: isNew,
                rest: rest &+ (sum &- argument.hash) &* 0x9e37_79b9_7f4a_7c15, now: now)
        }
    }

    private struct Argument {
        var name = 0..<0
        var nameHash: UInt64 = 0
        /// Of name and value.
        var hash: UInt64 = 0
    }

    /// Compares the response with those to requests that have another value of a field.
    mutating func compare(field name: [UInt8], value: UInt64, _ data: UInt64, isNew: Bool, rest: UInt64, now: Int64) {
        compare(name[...], ContentHash.number(of: name.span), isField: true, value: value, data, isNew: isNew, rest: rest, now: now)
    }

    private mutating func compare(
        _ name: ArraySlice<UInt8>, _ nameHash: UInt64, isField: Bool, value: UInt64, _ data: UInt64, isNew: Bool, rest: UInt64,
        now: Int64
    ) {
        guard let index = index(of: name, nameHash, isField: isField, now: now), !all[index].isSecret else { return }
        let slot = Int(truncatingIfNeeded: rest >> 32) & (Self.seenLimit - 1)
        var seen = all[index].seen[slot]
        let isRecent = seen.data != 0 && now - seen.at <= Self.span
        // Random values of other arguments do not push out a target that may be requested again.
        guard !isRecent || seen.rest == rest else { return }
        if !isRecent { seen = Seen(rest: rest) }
        if isRecent, seen.value != value {
            if all[index].note(data, isNew: isNew, after: &seen) { doubtAt = now }
            all[index].comparedAt = now
        }
        (seen.value, seen.data, seen.at) = (value, data, now)
        all[index].seen[slot] = seen
    }

    /// nil if the name cannot be shown, or if there are too many.
    private mutating func index(of name: ArraySlice<UInt8>, _ nameHash: UInt64, isField: Bool, now: Int64) -> Int? {
        if let index = all.firstIndex(where: { $0.nameHash == nameHash && $0.counts.isField == isField }) { return index }
        guard name.isPlainName else { return nil }
        if all.count >= Self.nameLimit {
            guard let idle = all.firstIndex(where: { now - $0.comparedAt > Self.idleLimit }) else { return nil }
            all.remove(at: idle)
        }
        let isSecret = !isField && SecretNames.isSecret(argument: name)
        all.append(One(counts: ComparedName(Array(name), isField: isField), nameHash: nameHash, isSecret: isSecret, comparedAt: now))
        return all.count - 1
    }
}

extension ComparedNames.One {
    /// Notes data with another value than before. A difference is certain only if the earlier data returns.
    /// - Returns: whether there is a difference, and none was certain yet.
    fileprivate mutating func note(_ data: UInt64, isNew: Bool, after seen: inout ComparedNames.Seen) -> Bool {
        guard seen.data != data else {
            if isNew { counts.equal &+= 1 }
            return false
        }
        if seen.earlierData == data {
            counts.different &+= 1
            counts.doubtful -= min(1, counts.doubtful)
        } else {
            counts.doubtful &+= 1
        }
        seen.earlierData = seen.data
        return counts.different == 0
    }
}
