// Reads single keys from the terminal without echo. Restores the terminal's settings on deinitialization.

import CSystem
import Glibc
import Reactor

final class TerminalKeys {
    private let before: termios
    private var hasEnded = false

    /// nil if standard input is not a terminal.
    init?() {
        var settings = termios()
        guard tcgetattr(STDIN_FILENO, &settings) == 0 else { return nil }
        before = settings
        // Ctrl-C arrives as a key, so that the terminal is restored before the exit.
        settings.c_lflag &= ~tcflag_t(ICANON | ECHO | ISIG)
        var former = before
        csystem_keep_terminal(&former)
        guard tcsetattr(STDIN_FILENO, TCSANOW, &settings) == 0 else { return nil }
    }

    deinit {
        var settings = before
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
    }

    /// Waits for a key.
    /// - Parameter end: latest time, in milliseconds of `now`.
    /// - Returns: the pressed key; nil after `end`.
    func next(until end: Int) -> UInt8? {
        while case let left = end - Self.now, left > 0 {
            var waiting = pollfd(fd: hasEnded ? -1 : STDIN_FILENO, events: Int16(POLLIN), revents: 0)
            guard poll(&waiting, 1, Int32(left)) > 0 else { continue }
            var key: UInt8 = 0
            if read(STDIN_FILENO, &key, 1) == 1 { return key }
            hasEnded = true
        }
        return nil
    }

    static var now: Int { Int(SystemTime.shared.monotonicMilliseconds) }
}
