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
    /// What cookies of the session's name say. There may be several: whoever serves another port of the host can set some of that name too.
    let sessions: [String]
    let holder: StatusHolder
    /// The administrator's token, or the door says enough.
    let hasToken: Bool
    let isSecured: Bool
    let isOwnName: Bool

    /// - Parameters:
    ///   - client: whose the request is; nil through a Unix socket.
    ///   - settings: the administrator's token, and the names that we go by.
    ///   - isCertified: whether one of our certificates is for a name.
    public init(
        _ head: RequestHead, through door: AdminDoor, of client: IPAddress?, settings: AdminSettings, isSecured: Bool,
        isCertified: (String) -> Bool
    ) {
        let text = { (field: ArraySlice<UInt8>?) in field.map { String(decoding: $0, as: UTF8.self).lowercased() } }
        host = String(decoding: head.host, as: UTF8.self).lowercased()
        // Two of these are none that a browser sends.
        let origins = head.fields.all(.origin)
        origin = origins.count > 1 ? "" : text(origins.first.map { $0[...] })
        site = text(head.fields.all(named: "sec-fetch-site").first)
        sessions = SessionCookie.values(in: head.fields)
        holder = StatusHolder(client, head.fields)
        self.isSecured = isSecured
        guard case .unixSocket = door else {
            hasToken = settings.token.map { AdminAccess.presents($0, head.fields) } ?? false
            isOwnName = settings.names.contains(head.host) || Self.isOwn(host, isCertified)
            return
        }
        // No page reaches that, under any name.
        (hasToken, isOwnName) = (true, true)
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
    /// - Parameter place: that the path names; nil where it names none.
    func viewer(_ sessions: StatusSessions, at place: String?, now: Int64) -> StatusViewer {
        guard isOwnName, isOwnOrigin else { return .anybody }
        if hasToken { return .token }
        guard let place, let session = sessions.session(at: place, ids: self.sessions, of: holder, now: now) else { return .anybody }
        return .session(session)
    }

    /// What it may change.
    /// - Parameter formToken: what the form says.
    func mayChange(_ sessions: StatusSessions, at place: String?, formToken: String?, now: Int64) -> Bool {
        switch viewer(sessions, at: place, now: now) {
        case .anybody: false
        case .token: true
        case .session(let session):
            (site ?? "same-origin") == "same-origin" && AdminAccess.isEqual(Array((formToken ?? "").utf8), Array(session.formToken.utf8))
        }
    }
}

/// Whose a session is: what is taken elsewhere is of no use there. Of a client's address counts what one client has at its disposal, and this
/// machine is one client, by whichever of its own addresses it asks.
struct StatusHolder: Sendable, Equatable {
    private let client: UInt128?
    private let browser: [UInt8]

    init(_ client: IPAddress?, _ fields: Fields) {
        self.client = client.map { $0.isLoopback ? 0 : $0.client }
        browser = Array((fields.all(named: "user-agent").first ?? []).prefix(Self.browserLimit))
    }

    /// What is kept of a browser's name, in bytes.
    private static let browserLimit = 512
}

enum StatusViewer: Sendable {
    case anybody
    case token
    case session(StatusSessions.Session)

    var maySee: Bool { if case .anybody = self { false } else { true } }

    /// The path of the page as it has it.
    var path: String { if case .session(let session) = self { session.path } else { "/-/status" } }
}

/// Sessions of browsers, and the codes that they begin with. Both end, and there are so many only.
struct StatusSessions: Sendable {
    /// It takes both to get in: cookies go to every port of a host, but to those paths only that they are for, and nobody else knows this one.
    struct Session: Sendable {
        /// What the cookie says.
        let id: String
        /// The last segment of the page's path.
        let place: String
        /// Stands in each of its forms.
        let formToken: String
        fileprivate let holder: StatusHolder
        /// Milliseconds of the clock that is never set.
        fileprivate let end: Int64

        var path: String { SessionCookie.path + place }
    }

    private var codes: [(code: String, end: Int64)] = []
    private var sessions: [Session] = []

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
    mutating func open(_ code: String, for holder: StatusHolder, now: Int64) -> Session? {
        let presented = Array(code.utf8)
        // All are compared, in the time that one takes each.
        let fitting = codes.indices.filter { AdminAccess.isEqual(presented, Array(codes[$0].code.utf8)) }
        guard let place = fitting.first else { return nil }
        let end = codes.remove(at: place).end
        guard now < end else { return nil }
        sessions.removeAll { $0.end <= now }
        sessions.removeFirst(max(0, sessions.count - Self.sessionLimit + 1))
        let session = Session(
            id: AdminSecret.random(), place: AdminSecret.random(), formToken: AdminSecret.random(), holder: holder,
            end: now + Self.sessionSeconds * 1_000)
        sessions.append(session)
        return session
    }

    func session(at place: String, ids: [String], of holder: StatusHolder, now: Int64) -> Session? {
        let place = Array(place.utf8)
        guard let session = sessions.filter({ AdminAccess.isEqual(place, Array($0.place.utf8)) && now < $0.end }).first,
            session.holder == holder
        else { return nil }
        let id = Array(session.id.utf8)
        return ids.filter { AdminAccess.isEqual(Array($0.utf8), id) }.isEmpty ? nil : session
    }

    mutating func end(at place: String) {
        let place = Array(place.utf8)
        sessions.removeAll { AdminAccess.isEqual(place, Array($0.place.utf8)) }
    }
}
