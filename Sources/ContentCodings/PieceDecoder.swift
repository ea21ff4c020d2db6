// Decodes content in pieces.

import CBrotli
import CZlib
import CZstd
import HTTPCore

/// Not thread-safe: must be used by one thread at a time.
public final class PieceDecoder {
    public typealias Failure = ContentDecoder.Failure

    private enum Library {
        /// zlib stores the address of its stream, so it must not move.
        case gzip(UnsafeMutablePointer<z_stream>)
        case brotli(OpaquePointer)
        case zstd(OpaquePointer)
    }

    private let library: Library
    /// Number of input bytes consumed.
    public private(set) var taken = 0
    /// Whether the whole input is decoded.
    public private(set) var isEnded = false

    /// Approximate memory of a library for one content, in bytes. For Brotli and Zstandard with common window sizes.
    public static let heldBytes = 64 << 10

    /// nil if memory is exhausted, or the coding is `identity`.
    public init?(_ coding: ContentCoding) {
        switch coding {
        case .identity: return nil
        case .gzip:
            let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
            stream.initialize(to: z_stream())
            guard cistern_inflate_init_gzip(stream) == Z_OK else {
                stream.deallocate()
                return nil
            }
            library = .gzip(stream)
        case .brotli:
            guard let decoder = BrotliDecoderCreateInstance(nil, nil, nil) else { return nil }
            library = .brotli(decoder)
        case .zstd:
            guard let decoder = ZSTD_createDStream() else { return nil }
            // RFC 9659: the window size in HTTP is at most 8 MiB.
            _ = ZSTD_DCtx_setParameter(decoder, ZSTD_d_windowLogMax, 23)
            library = .zstd(decoder)
        }
    }

    deinit {
        switch library {
        case .gzip(let stream):
            inflateEnd(stream)
            stream.deallocate()
        case .brotli(let decoder): BrotliDecoderDestroyInstance(decoder)
        case .zstd(let decoder): ZSTD_freeDStream(decoder)
        }
    }

    /// Prepares for another content. Creating a decoder takes longer than decoding short content.
    /// - Returns: false if the decoder cannot be reused.
    public func reset() -> Bool {
        (taken, isEnded) = (0, false)
        switch library {
        case .gzip(let stream): return inflateReset(stream) == Z_OK
        case .brotli: return false
        case .zstd(let decoder): return ZSTD_isError(ZSTD_DCtx_reset(decoder, ZSTD_reset_session_only)) == 0
        }
    }

    /// Decodes complete content of known length.
    /// - Returns: nil if the content is damaged or has another length.
    public func decode(_ content: UnsafeRawBufferPointer, count: Int) -> [UInt8]? {
        let decoded = [UInt8](unsafeUninitializedCapacity: count) { space, made in
            made = decode(content, filling: UnsafeMutableRawBufferPointer(space)) ? count : 0
        }
        return decoded.count == count ? decoded : nil
    }

    /// - Parameter space: as long as the decoded content.
    /// - Returns: whether the content was decoded and has this length.
    public func decode(_ content: UnsafeRawBufferPointer, filling space: UnsafeMutableRawBufferPointer) -> Bool {
        (try? decode(content, into: space, isWhole: true)) == space.count
    }

    /// Decodes the next part of the content into `space`, until it is full or the content ends.
    /// - Parameters:
    ///   - content: the complete content, in every call.
    ///   - isWhole: whether `space` holds the complete decoded content, so that no state is kept for further calls.
    /// - Returns: number of bytes written; less than the size of `space` only at the end.
    public func decode(
        _ content: UnsafeRawBufferPointer, into space: UnsafeMutableRawBufferPointer, isWhole: Bool = false
    ) throws(Failure) -> Int {
        var made = 0
        while made < space.count, !isEnded {
            let before = (taken, made)
            let room = UnsafeMutableRawBufferPointer(rebasing: space[made...])
            let rest = UnsafeRawBufferPointer(rebasing: content[taken...])
            switch library {
            case .gzip(let stream): made += try inflate(rest, room, stream, isWhole ? Z_FINISH : Z_NO_FLUSH)
            case .brotli(let decoder): made += try unfold(rest, room, decoder)
            case .zstd(let decoder): made += try expand(rest, room, decoder)
            }
            // The content is truncated.
            if !isEnded, before == (taken, made) { throw .damaged }
        }
        return made
    }

    /// Several gzip members form one content (RFC 1952 §2.2). Trailing zeros are padding; other trailing bytes are an error.
    private func inflate(
        _ rest: UnsafeRawBufferPointer, _ room: UnsafeMutableRawBufferPointer, _ stream: UnsafeMutablePointer<z_stream>, _ flush: Int32
    ) throws(Failure) -> Int {
        let available = UInt32(clamping: rest.count)
        let space = UInt32(clamping: room.count)
        stream.pointee.next_in = UnsafeMutablePointer(mutating: rest.bindMemory(to: UInt8.self).baseAddress)
        stream.pointee.avail_in = available
        stream.pointee.next_out = room.bindMemory(to: UInt8.self).baseAddress
        stream.pointee.avail_out = space
        let result = CZlib.inflate(stream, flush)
        taken += Int(available - stream.pointee.avail_in)
        switch result {
        case Z_OK, Z_BUF_ERROR: break
        case Z_STREAM_END:
            let behind = rest[Int(available - stream.pointee.avail_in)...]
            isEnded = behind.allSatisfy { $0 == 0 }
            if isEnded { taken += behind.count }
            guard isEnded || inflateReset(stream) == Z_OK else { throw .damaged }
        default: throw .damaged
        }
        return Int(space - stream.pointee.avail_out)
    }

    private func unfold(
        _ rest: UnsafeRawBufferPointer, _ room: UnsafeMutableRawBufferPointer, _ decoder: OpaquePointer
    ) throws(Failure) -> Int {
        var (left, space) = (rest.count, room.count)
        var next = rest.bindMemory(to: UInt8.self).baseAddress
        var out = room.bindMemory(to: UInt8.self).baseAddress
        let result = BrotliDecoderDecompressStream(decoder, &left, &next, &space, &out, nil)
        taken += rest.count - left
        guard result != BROTLI_DECODER_RESULT_ERROR else { throw .damaged }
        if result == BROTLI_DECODER_RESULT_SUCCESS {
            guard left == 0 else { throw .damaged }
            isEnded = true
        }
        return room.count - space
    }

    /// Several frames form one content (RFC 8878 §3).
    private func expand(
        _ rest: UnsafeRawBufferPointer, _ room: UnsafeMutableRawBufferPointer, _ decoder: OpaquePointer
    ) throws(Failure) -> Int {
        var source = ZSTD_inBuffer(src: rest.baseAddress, size: rest.count, pos: 0)
        var target = ZSTD_outBuffer(dst: room.baseAddress, size: room.count, pos: 0)
        let hint = ZSTD_decompressStream(decoder, &target, &source)
        guard ZSTD_isError(hint) == 0 else { throw .damaged }
        taken += source.pos
        // A frame has ended.
        isEnded = hint == 0 && source.pos == rest.count
        return target.pos
    }
}
