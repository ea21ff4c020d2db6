// Checks whether the files of the TLS settings can be used, before a connection needs them.

extension UpstreamSettings {
    /// The settings with unusable TLS files, and the reason for each. Reads the files.
    public var unusableTLSFiles: [(setting: String, reason: String)] {
        var unusable: [(setting: String, reason: String)] = []
        var part = self
        (part.clientCertificate, part.clientKey, part.verify) = (nil, nil, true)
        if let caFile, TLSContext(part, http2: .off) == nil {
            unusable.append(("upstream.ca_file", "\(caFile) must be a PEM file with certificates"))
        }
        part = self
        (part.caFile, part.verify) = (nil, false)
        if let clientCertificate, let clientKey, TLSContext(part, http2: .off) == nil {
            unusable.append(
                (
                    "upstream.client_certificate",
                    "\(clientCertificate) and \(clientKey) must be PEM files with a certificate and its key, without a password"
                ))
        }
        return unusable
    }
}
