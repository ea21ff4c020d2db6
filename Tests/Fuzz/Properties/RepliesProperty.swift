// Replies of Redis: the result does not depend on how the bytes are split, and stays within the limits. A written reply is parsed back.
// Server lists in replies are parsed or rejected.

@testable import Engine

enum RepliesProperty {
    private static let limits = {
        var limits = EngineLimits()
        limits.replyBytes = 200
        limits.replyElements = 50
        return limits
    }()

    static func check(_ bytes: [UInt8]) throws(Violation) {
        let whole = read([bytes[...]])
        for place in splits(of: bytes.count) {
            let parts = read([bytes[..<place], bytes[place...]])
            try expect(parts.isBroken == whole.isBroken && parts.replies == whole.replies, "another reply where it is split at \(place)")
        }
        for reply in whole.replies {
            try expect(elements(of: reply) <= limits.replyElements, "too many elements")
            var written: [UInt8] = []
            write(reply, to: &written)
            try expect(read([written[...]]).replies == [reply], "the serialized reply is parsed differently")
            try checkMap(reply)
            if case .error(let text) = reply { try checkMeaning(text) }
        }
        try checkMeaning(bytes)
    }

    private static func read(_ pieces: [ArraySlice<UInt8>]) -> (replies: [EngineReply], isBroken: Bool) {
        let reader = ReplyReader(limits: limits)
        var replies: [EngineReply] = []
        for piece in pieces {
            piece.withUnsafeBytes { reader.feed($0) }
            while let reply = reader.next() { replies.append(reply) }
        }
        return (replies, reader.isBroken)
    }

    private static func elements(of reply: EngineReply) -> Int { 1 + (reply.list ?? []).reduce(0) { $0 + elements(of: $1) } }

    private static func write(_ reply: EngineReply, to bytes: inout [UInt8]) {
        switch reply {
        case .status(let text): bytes += Array("+".utf8) + text
        case .error(let text): bytes += Array("-".utf8) + text
        case .integer(let number): bytes += Array(":\(number)".utf8)
        case .bytes(let content): bytes += Array("$\(content.count)\r\n".utf8) + content
        case .nothing, .failed: bytes += Array("$-1".utf8)
        case .list(let list):
            bytes += Array("*\(list.count)\r\n".utf8)
            for one in list { write(one, to: &bytes) }
            return
        }
        bytes += [0x0D, 0x0A]
    }

    private static func checkMap(_ reply: EngineReply) throws(Violation) {
        guard let map = SlotMap(reply, from: .host("asked", port: 1), limit: 20) else { return }
        try expect(map.primaries.count <= 20 && map.replicas.count <= 20, "too many servers")
        for slot in stride(from: 0, to: KeySlot.count, by: 97) {
            if let owner = map.owner(of: slot) { try expect(map.primaries.contains(owner), "the owner of a slot is not a primary") }
        }
    }

    private static func checkMeaning(_ text: [UInt8]) throws(Violation) {
        if case .moved(let slot, _) = ErrorMeaning.of(text, from: .host("asked", port: 1)) {
            try expect((0..<KeySlot.count).contains(slot), "the slot is out of range")
        }
    }
}
