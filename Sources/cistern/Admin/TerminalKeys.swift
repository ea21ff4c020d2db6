// The keys of a terminal, one by one and not shown, for as long as somebody holds this; then the terminal is as it was.

import CSystem
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
        var former = before
        csystem_keep_terminal(&former)
        guard tcsetattr(STDIN_FILENO, TCSANOW, &settings) == 0 else { return nil }
    }

    deinit {
        var settings = before
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
    }

    /// Waits.
    /// - Parameter end: in milliseconds, as `now` counts them.
    /// - Returns: a key that was pressed, as soon as it was; nil where none was until then.
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

    static var now: Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
    }
}
