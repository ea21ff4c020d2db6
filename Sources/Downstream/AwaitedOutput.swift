// Output with a part that must be loaded from disk or produced first. Only the client of that response waits for it.

import Reactor

/// The output side of a response that may have to wait for its next part.
protocol AwaitingOutput: AnyObject, SendableMetatype {
    var table: ClientConnections { get }
    var output: OutputQueue { get set }
    /// Whether the next part of the output is being loaded from disk or produced.
    var isOutputAwaited: Bool { get set }
    var isClosed: Bool { get }

    /// Called when the next part is available. The output may hold more memory then.
    func outputCame()
    /// Called when the rest of the content cannot be loaded or produced.
    func outputBroke()
}

extension AwaitingOutput {
    func load(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject) {
        isOutputAwaited = true
        output.loadedPiece = bytes.baseAddress
        let own = LoopBound(value: self)
        table.contentMemory?.load(bytes, of: owner) { [loop = table.loop] in
            loop.execute { own.value.resume() }
        }
    }

    func make(_ producer: any ContentProducer) {
        isOutputAwaited = true
        let own = LoopBound(value: self)
        producer.makeNext { own.value.made($0) }
    }

    private func made(_ piece: ProducedPiece) {
        guard !isClosed else { return }
        switch piece {
        case .bytes(let bytes): output.append(made: bytes)
        case .end: output.endProduced()
        case .broken:
            isOutputAwaited = false
            return outputBroke()
        }
        resume()
    }

    private func resume() {
        isOutputAwaited = false
        if !isClosed { outputCame() }
    }
}
