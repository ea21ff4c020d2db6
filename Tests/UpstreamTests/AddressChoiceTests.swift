// Tests which of several upstream addresses is used.

import Testing

@testable import Upstream

@Suite("The addresses of an upstream")
struct AddressChoiceTests {
    @Test("the first reachable address is used; if none is reachable, the first address is used")
    func current() {
        var choice = AddressChoice(count: 3)
        #expect(choice.current == 0)
        let (isNews, isNewsAgain) = (choice.note(0, isDown: true), choice.note(0, isDown: true))
        #expect(isNews && !isNewsAgain)
        #expect(choice.current == 1 && !choice.areAllDown)
        for place in [1, 2] { _ = choice.note(place, isDown: true) }
        #expect(choice.current == 0 && choice.areAllDown)
        _ = choice.note(1, isDown: false)
        #expect(choice.current == 1)
    }

    @Test("a request is retried at most once on each of the other addresses")
    func next() {
        var choice = AddressChoice(count: 2)
        _ = choice.note(0, isDown: true)
        #expect(choice.next(moves: 0) == 1)
        // Meanwhile the first address has recovered, and the second has failed.
        _ = choice.note(0, isDown: false)
        _ = choice.note(1, isDown: true)
        #expect(choice.next(moves: 1) == nil)
        _ = choice.note(0, isDown: true)
        #expect(choice.next(moves: 0) == nil)
        var alone = AddressChoice(count: 1)
        _ = alone.note(0, isDown: true)
        #expect(alone.next(moves: 0) == nil && alone.current == 0)
    }
}
