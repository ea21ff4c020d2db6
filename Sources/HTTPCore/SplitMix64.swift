// A fast pseudorandom number generator (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). Not for secrets: one
// number reveals all others.

public enum SplitMix64 {
    /// Returns the number at an index of the sequence. Different indices give different numbers.
    public static func number(at index: UInt64) -> UInt64 {
        var mixed = index &* 0x9e37_79b9_7f4a_7c15
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
