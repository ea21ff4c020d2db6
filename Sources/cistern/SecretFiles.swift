// Warns at start, at reload and in `check` about files with secrets that other users of this machine can read.

import Glibc
import ReverseProxy
import Settings
import Upstream

enum SecretFiles {
    static func warnings(_ settings: CisternSettings) -> [String] {
        files(settings).compactMap { name, file in
            guard !file.isEmpty, isOpen(file) else { return nil }
            return
                "\(name): other users can read \(file), which contains a secret: run chmod 600 \(file), and chown it to the user that runs Cistern"
        }
    }

    /// Files with private keys, tokens, secrets and passwords.
    private static func files(_ settings: CisternSettings) -> [(name: String, file: String)] {
        var files = settings.tls.certificates.map { ("tls.certificates", $0.key.isEmpty ? $0.certificate : $0.key) }
        files.append(("admin.token_file", settings.admin.tokenFile))
        let key = settings.proxy.upstream.clientKey ?? ""
        files.append(("upstream.client_key", key))
        let share = settings.share
        files += [("share.secret_file", share.secretFile), ("share.password_file", share.passwordFile)]
        files.append(("share.tls.key", share.key.isEmpty ? share.certificate : share.key))
        let routes = [settings] + settings.apis.map(\.settings)
        for file in Set(routes.flatMap { [$0.otherRoute] + $0.routes }.flatMap(\.upstreamFields.files)).sorted() {
            files.append(("upstream.fields.set", file))
        }
        for one in settings.notify {
            let name = "notify: \(one.shownName)"
            files += [("\(name): url_file", one.urlFile), ("\(name): token_file", one.tokenFile), ("\(name): secret_file", one.secretFile)]
        }
        for api in settings.apis {
            let own = api.settings.proxy.upstream.clientKey ?? ""
            if own != key { files.append(("apis.\(api.name).upstream.client_key", own)) }
        }
        return files
    }

    /// Whether other users can access the file. A file of another user, which this process reads by its group as with mounted secrets, may
    /// be readable by the group. So may a file of root, who checks it for such a user.
    private static func isOpen(_ file: String) -> Bool {
        var status = stat()
        guard stat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return false }
        if status.st_mode & 0o007 != 0 || status.st_mode & 0o020 != 0 { return true }
        return status.st_mode & 0o070 != 0 && status.st_uid == geteuid() && status.st_uid != 0
    }
}
