// Who may see more on the page of the state than numbers, and change anything there: whoever has the administrator's token, or a session in a
// browser, which begins with a code that only the administrator's interface hands out. No other page gets in: not one of another origin, not
// one under a name that was turned to lead here (DNS rebinding), and not one that frames this. Pure: times are passed in.

import Addresses
import HTTPCore

/// Who asks for the page, by what the request says.
public struct StatusCaller: Sendable {
    /// As the request names us, with its port, in lower case.
    let host: String
    let origin: String?
    /// `Sec-Fetch-Site`, which browsers say and pages cannot.
    let site: String?
    /// What the cookie says.
    let session: String?
    /// The administrator's token, or the door says enough.
    let hasToken: Bool
    let isSecured: Bool
    let isOwnName: Bool

    /// - Parameters:
    ///   - token: the administrator's; nil where there is none.
    ///   - isCertified: whether one of our certificates is for a name.
    public init(_ head: RequestHead, through door: AdminDoor, token: [UInt8]?, isSecured: Bool, isCertified: (String) -> Bool) {
        let text = { (field: ArraySlice<UInt8>?) in field.map { String(decoding: $0, as: UTF8.self).lowercased() } }
        host = String(decoding: head.host, as: UTF8.self).lowercased()
        // Two of these are none that a browser sends.
        let origins = head.fields.all(.origin)
        origin = origins.count > 1 ? "" : text(origins.first.map { $0[...] })
        site = text(head.fields.all(named: "sec-fetch-site").first)
        session = Self.cookie(StatusSessions.cookie, head.fields.all(.cookie).map { $0[...] })
        self.isSecured = isSecured
        guard case .unixSocket = door else {
            hasToken = token.map { AdminAccess.presents($0, head.fields) } ?? false
            isOwnName = Self.isOwn(host, isCertified)
            return
        }
        // No page reaches that, under any name.
        (hasToken, isOwnName) = (true, true)
    }

    private static func cookie(_ name: String, _ lines: [ArraySlice<UInt8>]) -> String? {
        for line in lines {
            for pair in line.split(separator: UInt8(ascii: ";"), maxSplits: FieldListLimit.members) {
                let pair = pair.trimmed
                if pair.starts(with: Array("\(name)=".utf8)) { return String(decoding: pair.dropFirst(name.utf8.count + 1), as: UTF8.self) }
            }
        }
        return nil
    }

    /// An address is itself, wherever a name may lead; a certificate's name was checked by the browser.
    private static func isOwn(_ host: String, _ isCertified: (String) -> Bool) -> Bool {
        var name = host[...]
        if let bracket = name.firstIndex(of: "]") {
            guard name.first == "[" else { return false }
            let port = name[name.index(after: bracket)...]
            guard port.isEmpty || isPort(port) else { return false }
            return IPAddress(String(name[..<bracket].dropFirst())) != nil
        }
        if let colon = name.firstIndex(of: ":") {
            guard isPort(name[colon...]) else { return false }
            name = name[..<colon]
        }
        return name == "localhost" || IPAddress(String(name)) != nil || isCertified(String(name))
    }

    private static func isPort(_ text: Substring) -> Bool {
        text.first == ":" && text.count <= 6 && text.dropFirst().allSatisfy { $0.isASCII && $0.isNumber }
    }

    /// The request comes from our own page, or from no page.
    private var isOwnOrigin: Bool { origin.map { $0 == (isSecured ? "https://" : "http://") + host } ?? true }

    /// What it may see.
    func viewer(_ sessions: StatusSessions, now: Int64) -> StatusViewer {
        guard isOwnName, isOwnOrigin else { return .anybody }
        if hasToken { return .token }
        return session.flatMap { sessions.session($0, now: now) }.map { .session($0) } ?? .anybody
    }

    /// What it may change.
    /// - Parameter formToken: what the form says.
    func mayChange(_ sessions: StatusSessions, formToken: String?, now: Int64) -> Bool {
        switch viewer(sessions, now: now) {
        case .anybody: false
        case .token: true
        case .session(let session):
            (site ?? "same-origin") == "same-origin" && AdminAccess.isEqual(Array((formToken ?? "").utf8), Array(session.formToken.utf8))
        }
    }
}

enum StatusViewer: Sendable {
    case anybody
    case token
    case session(StatusSessions.Session)

    var maySee: Bool { if case .anybody = self { false } else { true } }
}

/// Sessions of browsers, and the codes that they begin with. Both end, and there are so many only.
struct StatusSessions: Sendable {
    struct Session: Sendable {
        let id: String
        /// Stands in each of its forms.
        let formToken: String
        /// Milliseconds of the clock that is never set.
        fileprivate let end: Int64
    }

    private var codes: [(code: String, end: Int64)] = []
    private var sessions: [Session] = []

    static let cookie = "cistern-session"
    static let codeSeconds: Int64 = 60
    static let sessionSeconds: Int64 = 3_600
    /// The oldest makes room.
    static let codeLimit = 8
    static let sessionLimit = 32

    /// A code that begins one session, within a minute.
    mutating func issueCode(now: Int64) -> String {
        codes.removeAll { $0.end <= now }
        codes.removeFirst(max(0, codes.count - Self.codeLimit + 1))
        let code = AdminSecret.random()
        codes.append((code, now + Self.codeSeconds * 1_000))
        return code
    }

    /// nil where the code is none, was used, or is over.
    mutating func open(_ code: String, now: Int64) -> Session? {
        let presented = Array(code.utf8)
        // All are compared, in the time that one takes each.
        let fitting = codes.indices.filter { AdminAccess.isEqual(presented, Array(codes[$0].code.utf8)) }
        guard let place = fitting.first else { return nil }
        let end = codes.remove(at: place).end
        guard now < end else { return nil }
        sessions.removeAll { $0.end <= now }
        sessions.removeFirst(max(0, sessions.count - Self.sessionLimit + 1))
        let session = Session(id: AdminSecret.random(), formToken: AdminSecret.random(), end: now + Self.sessionSeconds * 1_000)
        sessions.append(session)
        return session
    }

    func session(_ id: String, now: Int64) -> Session? {
        let presented = Array(id.utf8)
        return sessions.filter { AdminAccess.isEqual(presented, Array($0.id.utf8)) && now < $0.end }.first
    }
}
