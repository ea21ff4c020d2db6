// Tests of descriptors: the owner closes one exactly once, and writes are completed in several steps.

import CSystem
import Glibc
import Reactor
import Testing

@Suite("Descriptors")
struct DescriptorTests {
    private func isOpen(_ number: Int32) -> Bool { fcntl(number, F_GETFD) >= 0 }

    @Test("a descriptor is closed with its owner or earlier, and never twice")
    func closing() {
        // A number that no other test uses.
        let device = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 900)
        var own = Descriptor(device)
        #expect(state(own) == (device, true) && isOpen(device))
        own.close()
        #expect(state(own) == (-1, false) && !isOpen(device))
        // The new owner of the number keeps it open.
        let other = dup2(STDERR_FILENO, device)
        own.close()
        drop(own)
        #expect(isOpen(other))
        drop(Descriptor(other))
        #expect(!isOpen(other))
        #expect(state(Descriptor(-7)) == (-1, false))
    }

    private func state(_ descriptor: borrowing Descriptor) -> (Int32, Bool) { (descriptor.number, descriptor.isOpen) }

    private func drop(_ descriptor: consuming Descriptor) {}

    @Test("a write in pieces is completed; a failed write reports how many bytes were written")
    func wholeWrite() {
        let bytes = Array("0123456789".utf8)
        var taken: [UInt8] = []
        var interruptions = 3
        let count = bytes.withUnsafeBytes { all in
            WholeWrite.perform(all) { left, before in
                #expect(before == taken.count)
                if interruptions > 0 {
                    interruptions -= 1
                    errno = EINTR
                    return -1
                }
                taken += left.prefix(3)
                return min(3, left.count)
            }
        }
        #expect(count == 10 && taken == bytes)
        let part = bytes.withUnsafeBytes { all in
            WholeWrite.perform(all) { _, before in
                errno = ENOSPC
                return before < 4 ? 2 : -1
            }
        }
        #expect(part == 4 && errno == ENOSPC)
        #expect(WholeWrite.write(bytes, to: -1) == 0)
    }
}
