// Parses replies with hiredis, in pieces of any size. Own callbacks build the objects, so a number in a reply never directly determines an
// allocation. Bytes, elements, lines and depth of a reply are limited here.

import CHiredis

final class ReplyReader {
    private let reader: UnsafeMutablePointer<redisReader>
    private let builder: ReplyBuilder
    private let limits: EngineLimits
    /// Bytes received since the last complete reply.
    private(set) var bytesSinceReply = 0
    private(set) var isBroken = false

    /// Maximum length of an error, a status or a number: hiredis scans an incomplete line from its beginning each time.
    private static let lineLimitBytes = 64 * 1024
    /// Maximum length of a length in digits, with its line end.
    private static let lengthLimitBytes = 24

    init(limits: EngineLimits) {
        self.limits = limits
        builder = ReplyBuilder(limits)
        guard let reader = chiredis_reader_make(builder.parts) else { preconditionFailure("cannot create a hiredis reader: out of memory") }
        self.reader = reader
    }

    deinit { redisReaderFree(reader) }

    /// Feeds received bytes. At most some ten thousand at a time, because hiredis moves consumed bytes.
    func feed(_ bytes: UnsafeRawBufferPointer) {
        guard !isBroken, let start = bytes.baseAddress else { return }
        bytesSinceReply += bytes.count
        isBroken = redisReaderFeed(reader, start.assumingMemoryBound(to: CChar.self), bytes.count) != REDIS_OK
    }

    /// Returns the next reply; nil if it is incomplete or invalid.
    func next() -> EngineReply? {
        guard !isBroken else { return nil }
        var token: UnsafeMutableRawPointer?
        guard redisReaderGetReply(reader, &token) == REDIS_OK, !builder.isRefused else {
            isBroken = true
            return nil
        }
        guard token != nil else {
            isBroken = !mayResume
            return nil
        }
        bytesSinceReply = chiredis_unread_count(reader)
        return builder.takeReply()
    }

    private var mayResume: Bool {
        guard bytesSinceReply <= limits.replyBytes + Self.lineLimitBytes else { return false }
        let bytes = UnsafeRawBufferPointer(start: chiredis_unread(reader), count: chiredis_unread_count(reader))
        let type = chiredis_type(reader)
        guard type == REDIS_REPLY_STRING || type == REDIS_REPLY_ARRAY else { return bytes.count <= Self.lineLimitBytes }
        guard let end = bytes.prefix(Self.lengthLimitBytes).firstIndex(of: 0x0D) else { return bytes.count < Self.lengthLimitBytes }
        guard type == REDIS_REPLY_STRING else { return true }
        // A string beyond the limit fails at once, before its content arrives.
        var length = 0
        for byte in bytes[..<end] where (0x30...0x39).contains(byte) && length <= limits.replyBytes {
            length = length * 10 + Int(byte - 0x30)
        }
        return length <= limits.replyBytes
    }
}

/// Builds a reply from hiredis' callbacks, beginning with the outermost list.
private final class ReplyBuilder {
    let parts: UnsafeMutablePointer<chiredis_parts>
    private(set) var isRefused = false
    /// Incomplete lists, each with the number of missing elements.
    private var open: [(items: [EngineReply], missing: Int)] = []
    private var whole: EngineReply?
    private var elements = 0
    private let elementLimit: Int
    private let byteLimit: Int

    /// Maximum depth of lists; replies to our commands are less deep.
    private static let depthLimit = 7

    init(_ limits: EngineLimits) {
        (elementLimit, byteLimit) = (limits.replyElements, limits.replyBytes)
        parts = .allocate(capacity: 1)
        parts.initialize(
            to: chiredis_parts(
                owner: nil,
                bytes: { owner, type, text, count in ReplyBuilder.of(owner).add(type, UnsafeRawBufferPointer(start: text, count: count))
                },
                list: { owner, count in ReplyBuilder.of(owner).begin(count) },
                integer: { owner, number in ReplyBuilder.of(owner).add(.integer(number)) },
                nothing: { owner in ReplyBuilder.of(owner).add(.nothing) }))
        parts.pointee.owner = Unmanaged.passUnretained(self).toOpaque()
    }

    deinit { parts.deallocate() }

    private static func of(_ owner: UnsafeMutableRawPointer?) -> ReplyBuilder {
        Unmanaged<ReplyBuilder>.fromOpaque(owner!).takeUnretainedValue()
    }

    func takeReply() -> EngineReply {
        defer {
            whole = nil
            elements = 0
        }
        return whole ?? .nothing
    }

    private func add(_ type: Int32, _ bytes: UnsafeRawBufferPointer) -> Int32 {
        guard bytes.count <= byteLimit else { return refuse() }
        return switch type {
        case REDIS_REPLY_ERROR: add(.error([UInt8](bytes)))
        case REDIS_REPLY_STATUS: add(.status([UInt8](bytes)))
        default: add(.bytes([UInt8](bytes)))
        }
    }

    private func add(_ reply: EngineReply) -> Int32 {
        elements += 1
        guard elements <= elementLimit else { return refuse() }
        var reply = reply
        while let last = open.indices.last {
            open[last].items.append(reply)
            open[last].missing -= 1
            guard open[last].missing == 0 else { return 1 }
            reply = .list(open.removeLast().items)
        }
        whole = reply
        return 1
    }

    private func begin(_ count: Int) -> Int32 {
        guard count > 0 else { return add(.list([])) }
        elements += 1
        guard count <= elementLimit - elements, open.count < Self.depthLimit else { return refuse() }
        open.append(([], count))
        return 1
    }

    private func refuse() -> Int32 {
        isRefused = true
        return 0
    }
}
