// Learns which unknown request fields separate stored responses, and logs the findings.

import Addresses
import Downstream
import Logging
import ResponseCache

extension RequestEntry {
    /// Returns the number of the request field that prevented the use of a stored response; 0 if none did.
    @inline(never)
    func noteUnknownFields(of finding: Finding, _ stream: any ClientStream, _ cache: ResponseCache) -> UInt8 {
        let client = stream.client.clientAddress.address.map(\.clientNumber) ?? 0
        let (findings, field) = cache.noteUnknownFields(of: finding, by: client)
        for finding in findings { context.api.process.logger.notice("\(finding.sentence(ofAPI: context.api.name))") }
        return field
    }
}

extension FieldFinding {
    /// Log line about the finding, with the setting that helps.
    fileprivate func sentence(ofAPI api: String) -> String {
        let subject = api.isEmpty ? "" : "API \(api): "
        let change = "cache.harmless_fields: +\(name)"
        return switch kind {
        case .keptCopyBack:
            "\(subject)a stored response was not used, because the request differs in \(name); if responses do not depend on the field: "
                + "\(change)"
        case .changes:
            "\(subject)\(name) has a new value in each request, so it no longer separates stored responses; if responses do not depend "
                + "on it: \(change)"
        }
    }
}
