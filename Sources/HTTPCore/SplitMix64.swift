// A sequence of numbers that look like chance and are made in a moment (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). Whoever sees
// one can find its place in the sequence, and so all the others: for secrets there is the system's generator.

public enum SplitMix64 {
    /// The number at a place of the sequence: another for each.
    public static func number(at place: UInt64) -> UInt64 {
        var mixed = place &* 0x9e37_79b9_7f4a_7c15
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
