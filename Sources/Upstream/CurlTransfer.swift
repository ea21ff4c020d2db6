// Carries a transfer through libcurl from end to end: with TLS, in HTTP/2, or through a forward proxy that is asked for whole URIs.

import CLibcurl
import HTTPCore
import Reactor

final class CurlTransfer: CurlTask, TransferCarrier {
    private let transfer: Transfer
    /// The kept connection that was to be used had spoken unasked: nothing was sent, libcurl closes it, and another is looked for.
    private var startsAgain = false

    static func start(_ transfer: Transfer, _ multi: CurlMulti) {
        guard var easy = multi.takeHandle() else {
            return transfer.client.loop.atEndOfBatch { transfer.client.end(transfer, .proxyInternalError) }
        }
        easy.set(transfer.request)
        let new = CurlTransfer(transfer, easy, multi)
        transfer.carrier = new
        multi.add(new)
    }

    private init(_ transfer: Transfer, _ easy: consuming EasyHandle, _ multi: CurlMulti) {
        self.transfer = transfer
        super.init(easy, multi)
        let user = Unmanaged<CurlTask>.passUnretained(self).toOpaque()
        for option in [CURLOPT_HEADERDATA, CURLOPT_WRITEDATA, CURLOPT_READDATA, CURLOPT_PREREQDATA] {
            cistern_easy_set_pointer(pointer, option, user)
        }
        cistern_easy_set_data(pointer, CURLOPT_HEADERFUNCTION) { bytes, size, count, user in
            let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
            return CurlTransfer.from(user).headLine(Span(_unsafeBytes: line)) ? size * count : 0
        }
        cistern_easy_set_data(pointer, CURLOPT_WRITEFUNCTION) { bytes, size, count, user in
            let content = UnsafeRawBufferPointer(start: bytes, count: size * count)
            return switch CurlTransfer.from(user).content(Span(_unsafeBytes: content)) {
            case .taken: size * count
            case .held: cistern_write_pause()
            case .refused: 0
            }
        }
        cistern_easy_set_data(pointer, CURLOPT_READFUNCTION) { bytes, size, count, user in
            let space = UnsafeMutableRawBufferPointer(start: bytes, count: size * count)
            return CurlTransfer.from(user).readContent(into: space) ?? cistern_read_pause()
        }
        cistern_easy_set_prereq(pointer) { user, _, _, _, localPort in
            CurlTransfer.task(user).requestBegins(localPort: Int(localPort)) ? Int32(CURL_PREREQFUNC_OK) : Int32(CURL_PREREQFUNC_ABORT)
        }
    }

    private static func task(_ user: UnsafeMutableRawPointer?) -> CurlTransfer {
        unsafeDowncast(CurlTask.from(user), to: CurlTransfer.self)
    }

    private static func from(_ user: UnsafeMutableRawPointer?) -> Transfer { task(user).transfer }

    private func requestBegins(localPort: Int) -> Bool {
        startsAgain = multi.hasSurplus(self, localPort: localPort)
        return !startsAgain && transfer.requestBegins(connectionTimes)
    }

    func goOn(_ transfer: Transfer) { multi.unpause(self) }

    func abandon(_ transfer: Transfer) { multi.afterCallbacks { [self] in multi.release(self) } }

    override func connectionBegins() { transfer.connectionBegins() }

    override func ended(_ code: CURLcode, isConnectionKept: Bool) {
        noteConnection(code)
        if startsAgain, transfer.phase != .ended {
            multi.release(self)
            return CurlTransfer.start(transfer, multi)
        }
        // libcurl closes a connection that should go on only because of bytes after the end.
        if code == CURLE_OK, !isConnectionKept, case .length = transfer.framing, transfer.isPersistent, !transfer.request.hasContent,
            transfer.failure == nil
        {
            transfer.failure = .protocolError
        }
        multi.release(self)
        transfer.client.end(transfer, code == CURLE_OK ? nil : error(for: code))
    }

    /// A connection that ends within the content is known to libcurl as a receive error or a bad chunk.
    private func error(for code: CURLcode) -> UpstreamError {
        code == CURLE_RECV_ERROR && transfer.phase == .receiving ? .responseIncomplete : UpstreamError(code)
    }

    private func noteConnection(_ code: CURLcode) {
        if code != CURLE_OK, UpstreamError(code).isFailureToReach { transfer.client.notifyOfAttempt(UpstreamError(code)) }
        var opened = 0
        cistern_easy_get_long(pointer, CURLINFO_NUM_CONNECTS, &opened)
        transfer.client.counters.connectionsOpened += opened
        if opened > 0, code == CURLE_OK { transfer.client.notifyOfAttempt(nil) }
        guard opened > 0, multi.settings.http2 != .off else { return }
        var version = 0
        cistern_easy_get_long(pointer, CURLINFO_HTTP_VERSION, &version)
        if version == CURL_HTTP_VERSION_2_0 { multi.speaksHTTP2 = true }
    }
}
