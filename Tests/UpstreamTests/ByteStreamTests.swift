// Tests of the stream of bytes to the upstream.

import Glibc
import HTTPCore
import Reactor
import Testing

@testable import Upstream

@Suite("Stream to the upstream")
struct ByteStreamTests {
    @Test("the time for acknowledgements is limited, or not")
    func acknowledgementLimit() {
        let stream = ByteStream(Descriptor(socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)), nil)
        defer { stream.close() }
        for limit in [10_000, 0] as [Int32] {
            stream.acknowledgementLimit = limit
            var (value, length) = (Int32(-1), socklen_t(MemoryLayout<Int32>.size))
            #expect(getsockopt(stream.descriptor, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &value, &length) == 0)
            #expect(value == limit)
        }
    }

    @Test("a long or unlimited upload may wait for a peer that does not read")
    func boundedLength() {
        func length(_ content: ContentFraming) -> Int? {
            UpstreamRequest(method: .put, target: Array("/".utf8)[...], fields: Fields(), content: content).boundedLength
        }
        #expect(length(.none) == 0 && length(.length(7)) == 7 && length(.chunked) == nil && length(.tunnel) == nil)
    }
}
