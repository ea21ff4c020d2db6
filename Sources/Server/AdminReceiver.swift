// The listener's side of the admin interface: reads a whole request, passes it to `AdminInterface`, and sends the response. Also serves the
// proxy's own pages on these addresses.

import Addresses
import Administration
import Downstream
import HTTPCore
import Reactor
import ReverseProxy

final class AdminReceiver: RequestReceiver {
    private let entry: RequestEntry
    private let interface: AdminInterface
    private let pages: OwnPages
    private let address: ListenAddress
    private let apis: [ServedAPI]
    /// The global access rules.
    private let rules: AddressRules
    /// Names in the certificates that Cistern serves.
    private let names: ServerNames?

    init(entry: RequestEntry, interface: AdminInterface, pages: OwnPages, address: ListenAddress, apis: [ServedAPI], names: ServerNames?) {
        (self.apis, self.names, rules) = (apis, names, apis[0].state.settings.access.rules)
        self.entry = entry
        self.interface = interface
        self.pages = pages
        self.address = address
    }

    func received(_ request: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)? {
        let head = request.head
        guard isAdmitted(stream) else {
            let exchange = AdminExchange(entry: entry, stream: stream, interface: interface)
            exchange.send(
                AdminResponse(
                    AdminProblem(status: 403, sentence: "access.allow and access.deny do not admit your address to the admin interface.")))
            return nil
        }
        if let page = OwnPage(head) { return pages.respond(with: page, to: head, on: stream, of: entry) }
        let exchange = AdminExchange(entry: entry, stream: stream, interface: interface)
        if head.method.isRead, head.pathAndQuery == [UInt8(ascii: "/")] {
            exchange.send(AdminResponse(seeOther: "/-/status"))
            return nil
        }
        guard var adminRequest = AdminRequest(head) ?? AdminRequest(purging: head, api: apiName(of: head)) else {
            let sentence =
                "Available: /metrics, /healthz, /readyz, the status page at /-/status and the admin interface under /-/, described by /-/openapi.json."
            exchange.send(AdminResponse(AdminProblem.notFound(sentence)))
            return nil
        }
        if adminRequest.isForPage {
            adminRequest.statusAccess = StatusAccess(head, through: transport(of: stream), settings: interface.settings) { [names] name in
                names?.index(of: name) != nil
            }
            exchange.request = adminRequest
            exchange.contentLimitBytes = 0
            stream.sendContinue()
            return exchange
        }
        switch AdminAccess(head, through: transport(of: stream), token: interface.settings.token) {
        case .allowed:
            exchange.request = adminRequest
            stream.sendContinue()
            return exchange
        case .unauthorized:
            var response = AdminResponse(
                AdminProblem(status: 401, sentence: "The bearer token of the admin interface is missing or wrong."))
            response.fieldLines = AdminAccess.challenge
            exchange.send(response)
        case .forbidden(let sentence): exchange.send(AdminResponse(AdminProblem(status: 403, sentence: sentence)))
        }
        return nil
    }

    /// The listener's own rules replace the global ones. These do not apply to clients of this machine, so that a list of networks does not
    /// exclude local tools and health checks.
    private func isAdmitted(_ stream: any ClientStream) -> Bool {
        let own = stream.listener.settings.access
        let client = stream.client.clientAddress
        return own.allow(client) && (!own.isEmpty || client.isLoopback || rules.allow(client))
    }

    /// Name of the API that serves clients' requests with this host and path; nil if it has no name, or no API does.
    private func apiName(of head: RequestHead) -> String? {
        guard apis.count > 1, case .api(let index) = ServedAPIs(apis.map(\.state.settings.scope)).choose(head.host, head.pathAndQuery)
        else { return nil }
        return apis[index].name
    }

    /// How the client reached this listener. With the PROXY protocol the listener's address does not show this, so it counts as a network
    /// address.
    private func transport(of stream: any ClientStream) -> AdminTransport {
        if stream.listener.settings.verification == .required, stream.security?.certificate != nil { return .certified }
        return stream.listener.settings.takesProxyHeader ? .network : AdminTransport(address)
    }

    func refused(_ refusal: RequestRejection.Kind, on stream: any ClientStream) { entry.refused(refusal, on: stream) }
}

/// `@unchecked Sendable` because it is used on its shard's loop only; the interface's queue only passes it back to that loop.
private final class AdminExchange: ClientExchange, @unchecked Sendable {
    var request: AdminRequest?
    private let entry: RequestEntry
    /// nil once the response is sent, or the client has disconnected.
    private var stream: (any ClientStream)?
    private let interface: AdminInterface

    var contentLimitBytes = AdminInterface.contentLimitBytes

    init(entry: RequestEntry, stream: any ClientStream, interface: AdminInterface) {
        self.entry = entry
        self.stream = stream
        self.interface = interface
    }

    func requestContent(_ bytes: Span<UInt8>) {
        guard let count = request?.content.count else { return }
        guard count + bytes.count <= contentLimitBytes else {
            let response = AdminResponse(AdminProblem(status: 413, sentence: "The request's content is too long."))
            request = nil
            return send(response)
        }
        request?.content.append(copying: bytes)
    }

    func requestEnded() {
        guard let request else { return }
        self.request = nil
        interface.perform(request) { [self] response in
            entry.loop.execute { self.send(response) }
        }
    }

    func responseDrained() {}
    func clientLeft() { stream = nil }
    var isRequest: Bool { false }

    func send(_ response: AdminResponse) {
        guard let stream else { return }
        self.stream = nil
        if response.isRefusal { entry.reporting.noteAdminRefusal(of: stream.client) }
        stream.sendWhole(head: response.head(date: entry.date), body: .bytes(response.content))
    }
}

extension AdminTransport {
    public init(_ address: ListenAddress) {
        if case .unix = address {
            self = .unixSocket
        } else {
            self = address.isLocal ? .loopback : .network
        }
    }
}

extension ClientAddress {
    /// Whether the client is a process of this machine.
    fileprivate var isLoopback: Bool {
        guard case .known(let address) = self else { return self == .local }
        return address.isIPv6 ? address.number == 1 : address.number >> 24 == 127
    }
}
