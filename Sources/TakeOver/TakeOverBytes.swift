// Serialization of messages: the kind, followed by its parts. Numbers are little-endian; texts and bytes follow their length. Input comes
// from another process and may be invalid; reading it always terminates.

extension TakeOverMessage {
    /// Maximum size of a message in bytes. Messages contain no response content; the longest is a page of counts.
    public static let limitBytes = 16 << 20

    public var bytes: [UInt8] {
        var out = PartsWriter()
        switch self {
        case .hello(let greeting):
            out.begin(1, greeting.dialogue, greeting.storeFormat, greeting.process)
            out.put(greeting.version)
        case .prepared(let listeners):
            out.begin(2, UInt32(clamping: listeners.count))
            for index in listeners { out.put(short: UInt32(clamping: index)) }
        case .failed(let sentence): out.begin(3, sentence)
        case .acknowledged(let count):
            out.begin(4)
            out.put(count)
        case .refused(let sentence): out.begin(5, sentence)
        case .listener(let listener):
            out.begin(6, listener.isAdmin ? 1 : 0, listener.sockets)
            out.put(listener.wanted)
        case .activated(let name): out.begin(7, name)
        case .store: out.begin(8)
        case .takeOverListener: out.begin(9)
        case .ticketKeys(let keys):
            out.begin(10)
            out.put(keys)
        case .offered: out.begin(11)
        case .committed(let position):
            out.begin(12)
            out.put(position.segment)
            out.put(position.offset)
        case .begin: out.begin(13)
        case .modes(let modes):
            out.begin(14, modes.api)
            out.put(modes.initial)
            out.put(modes.now)
        case .faults(let faults):
            out.begin(15, UInt32(clamping: faults.count))
            for fault in faults { out.put(fault) }
        case .counts(let page):
            out.begin(16)
            out.put(page)
        case .change(let change):
            out.begin(17)
            out.put(change)
        }
        return out.bytes
    }

    /// Returns nil if the bytes are no valid message.
    public init?(_ bytes: [UInt8]) {
        var parts = PartsReader(bytes)
        let kind: UInt32 = parts.number()
        guard let message = Self.message(kind, &parts), parts.isWhole else { return nil }
        self = message
    }

    private static func message(_ kind: UInt32, _ parts: inout PartsReader) -> TakeOverMessage? {
        switch kind {
        case 1:
            .hello(
                Greeting(dialogue: parts.number(), storeFormat: parts.number(), process: parts.number(), version: parts.text()))
        case 2: .prepared(listeners: parts.list { Int($0.number() as UInt32) })
        case 3: .failed(parts.text())
        case 4: .acknowledged(parts.number())
        case 5: .refused(parts.text())
        case 6: listener(&parts)
        case 7: .activated(name: parts.text())
        case 8: .store
        case 9: .takeOverListener
        case 10: .ticketKeys(parts.bytes())
        case 11: .offered
        case 12: .committed(HandedPosition(segment: parts.number(), offset: parts.number()))
        case 13: .begin
        case 14: .modes(PassedModes(api: parts.text(), initial: parts.table(), now: parts.table()))
        case 15: .faults(parts.list { $0.fault() })
        case 16: .counts(parts.bytes())
        case 17: parts.change().map { .change($0) }
        default: nil
        }
    }

    private static func listener(_ parts: inout PartsReader) -> TakeOverMessage {
        let isAdmin = parts.number() as UInt32 != 0
        let sockets: UInt32 = parts.number()
        return .listener(HandedListener(wanted: parts.text(), isAdmin: isAdmin, sockets: sockets))
    }
}

private struct PartsWriter {
    private(set) var bytes: [UInt8] = []

    /// Writes a kind and numbers of four bytes.
    mutating func begin(_ kind: UInt32, _ numbers: UInt32...) { for number in [kind] + numbers { put(short: number) } }

    mutating func begin(_ kind: UInt32, _ text: String) {
        put(short: kind)
        put(text)
    }

    mutating func put(short number: UInt32) { for shift in 0..<4 { bytes.append(UInt8(truncatingIfNeeded: number >> UInt32(8 * shift))) } }

    mutating func put(_ number: UInt64) { for shift in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(8 * shift))) } }

    mutating func put(_ text: String) { put(Array(text.utf8)) }

    mutating func put(_ more: [UInt8]) {
        put(short: UInt32(clamping: more.count))
        bytes += more
    }

    mutating func put(_ table: PassedModes.Table) {
        put(table.all)
        put(short: UInt32(clamping: table.routes.count))
        for (route, mode) in table.routes.sorted(by: { $0.key < $1.key }) {
            put(route)
            put(mode)
        }
        put(short: UInt32(clamping: table.prefixes.count))
        for rule in table.prefixes {
            put(rule.prefix)
            put(rule.mode)
        }
    }

    mutating func put(_ fault: PassedFault) {
        put(short: fault.number)
        put(short: fault.percent)
        put(fault.path)
        for number in [fault.end, fault.leastDelay, fault.longestDelay, fault.argument] { put(UInt64(bitPattern: number)) }
        put(fault.kind)
    }

    mutating func put(_ change: PassedChange) {
        switch change {
        case .item(let key, let metadata, let head, let body, let retention):
            begin(1, UInt32(retention))
            for part in [key, metadata, head, body] { put(part) }
        case .removal(let low, let high):
            begin(2)
            put(low)
            put(high)
        case .staleMark(let low, let high):
            begin(3)
            put(low)
            put(high)
        case .clearing: begin(4)
        case .staleAll: begin(5)
        case .purge(let milliseconds):
            begin(6)
            put(UInt64(bitPattern: milliseconds))
        case .identities(let tokens, let isLost):
            begin(7, isLost ? 1 : 0, UInt32(clamping: tokens.count))
            for token in tokens { put(token) }
        }
    }
}

/// Reads parts. After the end of the bytes, all numbers are 0 and all texts empty, and `isWhole` is false.
private struct PartsReader {
    private var rest: ArraySlice<UInt8>
    private var isShort = false

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    var isWhole: Bool { !isShort && rest.isEmpty }

    mutating func number<Number: FixedWidthInteger>() -> Number {
        let count = Number.bitWidth / 8
        guard rest.count >= count else {
            (rest, isShort) = ([], true)
            return 0
        }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count).reversed().reduce(0) { $0 << 8 | Number(truncatingIfNeeded: $1) }
    }

    mutating func bytes() -> [UInt8] {
        let count = Int(number() as UInt32)
        guard rest.count >= count else {
            (rest, isShort) = ([], true)
            return []
        }
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    mutating func text() -> String { String(decoding: bytes(), as: UTF8.self) }

    /// Each element has at least one byte.
    mutating func list<Element>(_ next: (inout PartsReader) -> Element) -> [Element] {
        let count = Int(number() as UInt32)
        var all: [Element] = []
        while all.count < count, !rest.isEmpty { all.append(next(&self)) }
        if all.count < count { isShort = true }
        return all
    }

    mutating func table() -> PassedModes.Table {
        var table = PassedModes.Table(all: text())
        for (route, mode) in list({ ($0.text(), $0.text()) }) { table.routes[route] = mode }
        table.prefixes = list { PassedModes.Table.Prefix(prefix: $0.text(), mode: $0.text()) }
        return table
    }

    mutating func fault() -> PassedFault {
        let (number, percent): (UInt32, UInt32) = (number(), number())
        let path = text()
        let (end, least, longest, argument): (Int64, Int64, Int64, Int64) = (self.number(), self.number(), self.number(), self.number())
        return PassedFault(
            number: number, path: path, percent: percent, end: end, leastDelay: least, longestDelay: longest, kind: text(),
            argument: argument)
    }

    mutating func change() -> PassedChange? {
        switch number() as UInt32 {
        case 1:
            let retention: UInt32 = number()
            return .item(key: bytes(), metadata: bytes(), head: bytes(), body: bytes(), retention: UInt8(clamping: retention))
        case 2: return .removal(low: number(), high: number())
        case 3: return .staleMark(low: number(), high: number())
        case 4: return .clearing
        case 5: return .staleAll
        case 6: return .purge(milliseconds: number())
        case 7:
            let isLost = number() as UInt32 != 0
            return .identities(tokens: list { $0.bytes() }, isLost: isLost)
        default: return nil
        }
    }
}
