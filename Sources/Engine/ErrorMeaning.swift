// Classifies error replies for routing. Pure.

enum ErrorMeaning: Equatable {
    case moved(slot: Int, EngineServer)
    case ask(EngineServer)
    case tryAgain
    case failure(EngineFailure)
    case other

    /// - Parameter asked: the server that replied. It may omit its own host.
    static func of(_ text: [UInt8], from asked: EngineServer) -> ErrorMeaning {
        let words = text.split(separator: 0x20, maxSplits: 4).map { String(decoding: $0, as: UTF8.self) }
        switch words.first {
        case "MOVED":
            guard words.count >= 3, let slot = Int(words[1]), (0..<KeySlot.count).contains(slot),
                let server = EngineServer(reported: words[2], by: asked)
            else { return .failure(.protocolError) }
            return .moved(slot: slot, server)
        case "ASK":
            guard words.count >= 3, let server = EngineServer(reported: words[2], by: asked) else { return .failure(.protocolError) }
            return .ask(server)
        case "TRYAGAIN": return .tryAgain
        case "LOADING": return .failure(.loading)
        case "CLUSTERDOWN": return .failure(.clusterDown)
        case "READONLY", "MASTERDOWN": return .failure(.readOnly)
        case "NOAUTH", "WRONGPASS": return .failure(.denied)
        case "NOPERM": return .failure(isAboutKey(text) ? .keyForbidden : .commandForbidden)
        case "OOM", "MISCONF", "NOREPLICAS": return .failure(.full)
        default: return .other
        }
    }

    /// Classifies a reply to AUTH. A server that has reached its client limit may report that here as well.
    static func ofPassword(_ text: [UInt8], from asked: EngineServer) -> EngineFailure {
        if case .failure(.loading) = of(text, from: asked) { return .loading }
        let text = String(decoding: text, as: UTF8.self).lowercased()
        return text.contains("auth") || text.contains("pass") ? .denied : .unreachable
    }

    /// Returns whether a NOPERM error refers to a key. Other NOPERM errors refer to a command or a channel.
    private static func isAboutKey(_ text: [UInt8]) -> Bool {
        let text = String(decoding: text, as: UTF8.self)
        return text.contains("permissions to access a key") || text.contains("permissions to access one of the keys")
    }
}

extension EngineServer {
    /// Parses `host:port`. IPv6 addresses have no brackets, so the last colon is the separator.
    init?(reported text: String, by asked: EngineServer) {
        guard let colon = text.lastIndex(of: ":"), let port = Int64(text[text.index(after: colon)...]) else { return nil }
        self.init(toldHost: String(text[..<colon]), port: port, by: asked)
    }

    /// - Parameter host: if empty or "?", the host of the server that replied.
    init?(toldHost host: String, port: Int64, by asked: EngineServer) {
        guard let port = UInt16(exactly: port), port > 0, host.utf8.count <= 253, host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            return nil
        }
        guard host.isEmpty || host == "?" else {
            self = .host(host, port: port)
            return
        }
        switch asked {
        case .host(let name, _): self = .host(name, port: port)
        // The server of a Unix socket is on this machine.
        case .unix: self = .host("127.0.0.1", port: port)
        }
    }
}
