// Values for several settings under one name. What is set itself, in whatever layer, comes before them.

public enum SettingsProfile {
    /// By the profile's name.
    public static let values: [String: [(path: String, text: SettingText)]] = ["rfc9111": letter]

    /// RFC 9111 as a plain shared cache: no copy goes out against what it says, everything is kept that may be, nothing is added to what is kept
    /// and nothing left out, and no field or extension beyond the RFC says how. Users whose cookies tell them apart then share responses, as the RFC
    /// has it: this is for comparing, not for serving them.
    private static let letter: [(path: String, text: SettingText)] = [
        ("cache.policy", .one("strict")), ("cache.store", .one("any")), ("cache.store_errors", .one("letter")),
        ("cache.set_cookie", .one("keep")), ("cache.entity_tags", .one("false")), ("cache.credential_fields", .many([])),
        ("cache.targeted_fields", .many([])), ("cache.no_vary_search", .one("false")),
        // A slow upstream is connected (§4.2.4).
        ("cache.rescue_after", .one("0")),
    ]
}
