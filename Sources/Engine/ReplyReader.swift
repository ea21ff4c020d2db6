// Replies, read by hiredis from what a socket brings, in pieces of any size. hiredis is given callbacks of ours, so that it makes no object of its
// own: what it would take by a number that the engine has sent (a list of two thousand million) is never asked for. A reply's bytes, elements and lines
// are bounded here; hiredis ends at lists in lists in lists, seven deep.

import CHiredis

/// Of one connection.
final class ReplyReader {
    private let reader: UnsafeMutablePointer<redisReader>
    private let builder = ReplyBuilder()
    private let limits: EngineLimits
    /// Of the reply that is being read, and what has come behind it.
    private var bytesSinceReply = 0
    /// Nothing that comes is of use any more.
    private(set) var isBroken = false

    /// An error, a status or a number: hiredis looks at an unfinished line from its beginning each time.
    private static let lineLimitBytes = 64 * 1024
    /// A length in digits, and what ends it.
    private static let lengthLimitBytes = 24

    init(limits: EngineLimits) {
        self.limits = limits
        guard let reader = redisReaderCreateWithFunctions(ReplyBuilder.functions) else { preconditionFailure("no memory for hiredis") }
        self.reader = reader
        reader.pointee.privdata = Unmanaged.passUnretained(builder).toOpaque()
        builder.elementLimit = limits.replyElements
        builder.byteLimit = limits.replyBytes
    }

    deinit { redisReaderFree(reader) }

    /// What is held of a reply that has not come whole.
    var heldBytes: Int { bytesSinceReply }

    /// Hands over what has come: some ten thousand bytes at a time, since what is used up is moved away again and again.
    func feed(_ bytes: UnsafeRawBufferPointer) {
        guard !isBroken, let start = bytes.baseAddress else { return }
        bytesSinceReply += bytes.count
        isBroken = redisReaderFeed(reader, start.assumingMemoryBound(to: CChar.self), bytes.count) != REDIS_OK
    }

    /// The next whole reply; nil where it has not come whole, or the reader is broken.
    func next() -> EngineReply? {
        guard !isBroken else { return nil }
        var token: UnsafeMutableRawPointer?
        guard redisReaderGetReply(reader, &token) == REDIS_OK else {
            isBroken = true
            return nil
        }
        guard token != nil else {
            isBroken = !mayGoOn
            return nil
        }
        bytesSinceReply = chiredis_unread_count(reader)
        return builder.takeReply()
    }

    /// Judges what hiredis waits for more of.
    private var mayGoOn: Bool {
        guard bytesSinceReply <= limits.replyBytes + Self.lineLimitBytes else { return false }
        let bytes = UnsafeRawBufferPointer(start: chiredis_unread(reader), count: chiredis_unread_count(reader))
        let type = chiredis_type(reader)
        guard type == REDIS_REPLY_STRING || type == REDIS_REPLY_ARRAY else { return bytes.count <= Self.lineLimitBytes }
        guard let end = bytes.prefix(Self.lengthLimitBytes).firstIndex(of: 0x0D) else { return bytes.count < Self.lengthLimitBytes }
        guard type == REDIS_REPLY_STRING else { return true }
        // More than there may be is not waited for.
        var length = 0
        for byte in bytes[..<end] where (0x30...0x39).contains(byte) && length <= limits.replyBytes {
            length = length * 10 + Int(byte - 0x30)
        }
        return length <= limits.replyBytes
    }
}

/// Puts a reply together as hiredis tells of its parts, from the outside in.
private final class ReplyBuilder {
    /// Lists that are not whole: what they have, and how many they lack.
    private var open: [(items: [EngineReply], missing: Int)] = []
    private var whole: EngineReply?
    private var elements = 0
    var elementLimit = 0
    var byteLimit = 0
    private(set) var isRefused = false

    /// What stands for each object: hiredis wants something that is not null.
    private static var token: UnsafeMutableRawPointer? { UnsafeMutableRawPointer(bitPattern: 1) }

    func takeReply() -> EngineReply {
        defer {
            whole = nil
            elements = 0
        }
        return whole ?? .nothing
    }

    private func place(_ reply: EngineReply) -> UnsafeMutableRawPointer? {
        elements += 1
        guard elements <= elementLimit else { return refuse() }
        var reply = reply
        while !open.isEmpty {
            let last = open.count - 1
            open[last].items.append(reply)
            open[last].missing -= 1
            guard open[last].missing == 0 else { return Self.token }
            reply = .list(open.removeLast().items)
        }
        whole = reply
        return Self.token
    }

    private func begin(_ count: Int) -> UnsafeMutableRawPointer? {
        guard count > 0 else { return place(.list([])) }
        elements += 1
        guard count <= elementLimit - elements else { return refuse() }
        open.append(([], count))
        return Self.token
    }

    private func refuse() -> UnsafeMutableRawPointer? {
        isRefused = true
        return nil
    }

    private static func of(_ task: UnsafePointer<redisReadTask>?) -> ReplyBuilder? {
        task?.pointee.privdata.map { Unmanaged<ReplyBuilder>.fromOpaque($0).takeUnretainedValue() }
    }

    /// For all readers, for ever.
    static var functions: UnsafeMutablePointer<redisReplyObjectFunctions> { sharedFunctions.pointer }

    /// `@unchecked Sendable` because what it points to never changes.
    private struct Functions: @unchecked Sendable {
        let pointer: UnsafeMutablePointer<redisReplyObjectFunctions>
    }

    private static let sharedFunctions: Functions = {
        let pointer = UnsafeMutablePointer<redisReplyObjectFunctions>.allocate(capacity: 1)
        pointer.initialize(
            to: redisReplyObjectFunctions(
                createString: { task, text, count in
                    guard let builder = ReplyBuilder.of(task), let task else { return nil }
                    guard count <= builder.byteLimit else { return builder.refuse() }
                    let bytes = [UInt8](UnsafeRawBufferPointer(start: text, count: count))
                    return switch task.pointee.type {
                    case REDIS_REPLY_ERROR: builder.place(.error(bytes))
                    case REDIS_REPLY_STATUS: builder.place(.status(bytes))
                    default: builder.place(.bytes(bytes))
                    }
                },
                createArray: { task, count in ReplyBuilder.of(task)?.begin(Int(count)) },
                createInteger: { task, number in ReplyBuilder.of(task)?.place(.integer(number)) },
                createNil: { task in ReplyBuilder.of(task)?.place(.nothing) },
                freeObject: { _ in }))
        return Functions(pointer: pointer)
    }()
}
