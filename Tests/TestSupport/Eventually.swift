// Waits for a state of another process or thread that sends no event.

import Glibc

/// Polls a condition for half a minute; returns whether it became true.
package func eventually(_ condition: () throws -> Bool) throws -> Bool {
    for _ in 0..<3_000 {
        if try condition() { return true }
        _ = poll(nil, 0, 10)
    }
    return false
}
