// A client's stream that wraps another one and changes the output. Methods that it does not change are forwarded.

import Downstream
import HTTPCore

protocol StreamAround: ClientStream {
    var stream: any ClientStream { get }
}

extension StreamAround {
    var listener: Listener { stream.listener }
    var peer: PeerAddress { stream.peer }
    var companion: (any ConnectionCompanion)? {
        get { stream.companion }
        set { stream.companion = newValue }
    }
    var isMultiplexed: Bool { stream.isMultiplexed }
    var client: RequestClient { stream.client }
    func attribute(to client: RequestClient) { stream.attribute(to: client) }
    var security: ConnectionSecurity? { stream.security }
    func handOver(to exchange: any ClientExchange) { stream.handOver(to: exchange) }
    func startContentTotal() { stream.startContentTotal() }
    func pauseContent() { stream.pauseContent() }
    func resumeContent() { stream.resumeContent() }
    var isContinueAwaited: Bool { stream.isContinueAwaited }
    func sendContinue() { stream.sendContinue() }
    var hasPeerEnded: Bool { stream.hasPeerEnded }
    func sendInformational(_ head: ResponseHead) { stream.sendInformational(head) }
    var staysOpen: Bool { stream.staysOpen }
    func sendComplete(_ response: CompleteResponse, endingWith line: [UInt8]?) { stream.sendComplete(response, endingWith: line) }
    func sendAgain(_ response: CompleteResponse, endingWith line: [UInt8]?) { stream.sendAgain(response, endingWith: line) }
    func roomNeeded(lines: [UInt8], _ framing: ResponseFraming) -> Int { stream.roomNeeded(lines: lines, framing) }
    func spareOutput() -> [UInt8] { stream.spareOutput() }
    var takesChunks: Bool { stream.takesChunks }
    func write(_ bytes: Span<UInt8>) -> Bool { stream.write(bytes) }
    func endResponse() { stream.endResponse() }
    func takeBackResponse() -> Bool { stream.takeBackResponse() }
    func abortResponse() { stream.abortResponse() }
}
