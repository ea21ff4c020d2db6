// Formats counts, durations and sizes for people: on the status page, and in the state sentence.

public enum NumberText {
    /// `1,204`.
    public static func count(_ count: UInt64) -> String {
        let digits = Array("\(count)")
        return String(
            digits.enumerated().flatMap { index, digit -> [Character] in
                index > 0 && (digits.count - index) % 3 == 0 ? [",", digit] : [digit]
            })
    }

    public static func count(_ count: Int) -> String { (count < 0 ? "-" : "") + self.count(UInt64(count.magnitude)) }

    /// `1 request`, `1,204 requests`.
    public static func count(_ count: UInt64, _ one: String, _ many: String) -> String { "\(self.count(count)) \(count == 1 ? one : many)" }

    /// `45 s`, `4 min`, `3 h`, `2 d`: whole numbers, in the largest unit with a value of at least two; minutes from one.
    public static func span(_ seconds: Int64) -> String {
        for (unit, length) in [("d", 86_400), ("h", 3_600), ("min", 60)] as [(String, Int64)]
        where seconds >= (length == 60 ? 60 : 2 * length) {
            return "\(seconds / length) \(unit)"
        }
        return "\(max(0, seconds)) s"
    }

    /// `80 µs`, `2.5 ms`, `1 s`.
    public static func duration(microseconds: Int64) -> String {
        if microseconds < 1_000 { return "\(microseconds) µs" }
        return microseconds < 1_000_000 ? "\(decimal(Double(microseconds) / 1e3)) ms" : "\(decimal(Double(microseconds) / 1e6)) s"
    }

    /// `812 B`, `4.2 KiB`, `1 MiB`.
    public static func bytes(_ count: Int) -> String {
        var (value, unit) = (Double(count), "B")
        for next in ["KiB", "MiB", "GiB", "TiB"] where value >= 999.95 { (value, unit) = (value / 1_024, next) }
        return "\(decimal(value)) \(unit)"
    }

    /// Formats a number with at most one decimal, which is omitted if it is 0.
    public static func decimal(_ value: Double) -> String {
        guard value.isFinite, value.magnitude < 1e15 else { return "–" }
        let tenths = Int((value * 10).rounded())
        let whole = count(UInt64(tenths.magnitude / 10))
        return (tenths < 0 ? "-" : "") + whole + (tenths % 10 == 0 || tenths.magnitude >= 1_000 ? "" : ".\(tenths.magnitude % 10)")
    }

    /// `94.2 %`; nil if `whole` is 0.
    public static func share(_ part: UInt64, of whole: UInt64) -> String? {
        guard whole > 0 else { return nil }
        // A share below 100 % is not rounded up to 100 %.
        let share = Double(min(part, whole)) * 100 / Double(whole)
        return "\(decimal(part < whole ? min(share, 99.9) : share)) %"
    }
}
