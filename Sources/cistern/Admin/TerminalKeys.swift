// The keys of a terminal, one by one and not shown, for as long as somebody holds this; then the terminal is as it was.

import Glibc

final class TerminalKeys {
    private let before: termios
    private var hasEnded = false

    /// nil where standard input is no terminal.
    init?() {
        var settings = termios()
        guard tcgetattr(STDIN_FILENO, &settings) == 0 else { return nil }
        before = settings
        // Ctrl-C comes as a key too, so that the terminal is put right first.
        settings.c_lflag &= ~tcflag_t(ICANON | ECHO | ISIG)
        guard tcsetattr(STDIN_FILENO, TCSANOW, &settings) == 0 else { return nil }
    }

    deinit {
        var settings = before
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
    }

    /// q, Q, Ctrl-C, Ctrl-D.
    private static let ending: [UInt8] = [0x71, 0x51, 0x03, 0x04]

    /// Waits.
    /// - Returns: whether one of the keys was pressed that mean the end; as soon as it was.
    func isEndWanted(within seconds: Double) -> Bool {
        var now = Self.now
        let end = now + Int(seconds * 1_000)
        while now < end {
            var waiting = pollfd(fd: hasEnded ? -1 : STDIN_FILENO, events: Int16(POLLIN), revents: 0)
            if poll(&waiting, 1, Int32(end - now)) > 0 {
                var key: UInt8 = 0
                if read(STDIN_FILENO, &key, 1) == 1 {
                    if Self.ending.contains(key) { return true }
                } else {
                    hasEnded = true
                }
            }
            now = Self.now
        }
        return false
    }

    private static var now: Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
    }
}
