// Outages of the upstream in walks.

extension TestResponse {
    /// Whether the response comes from the upstream, not from a rescue.
    package var isFromUpstream: Bool { status == 200 && self["Cache-Status"]?.contains("detail=") != true }
}

extension ProxyPlay {
    /// Takes the upstream down, or up again: then until it is found again.
    package func turnUpstream(_ isUp: inout Bool) throws {
        isUp.toggle()
        guard isUp else { return origin.down() }
        origin.up()
        // Past all that is remembered of the outage.
        time.advance(by: .seconds(120))
        for attempt in 0..<100 where try get("/warm/\(attempt)").status == 200 { return }
        throw ScheduleFailure("the upstream is not found again")
    }
}
