// What suites and tests say of themselves beside their sentence.

import Glibc
import Testing

extension Trait where Self == ConditionTrait {
    /// Takes seconds of a processor: left out by `make test FAST=1`.
    package static var slow: Self { .disabled(if: getenv("FAST_TESTS") != nil, "left out, since it is slow") }
}

extension Trait where Self == TimeLimitTrait {
    /// For plays over sockets: one that waits for ever ends with its name. All tests begin together, so on a busy machine each has the time of all.
    package static var play: Self { .timeLimit(.minutes(10)) }
}
