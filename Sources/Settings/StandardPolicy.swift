// `cache.policy: rfc9111`: RFC 9111 as a plain shared cache, without rescues, extensions or rules beyond the RFC. It stores everything the
// RFC permits and does not change stored fields. Users that differ only in cookies then share responses, as in the RFC. Use it for
// comparisons, not for production.

public enum StandardPolicy {
    public static let name = "rfc9111"

    /// Values that the policy gives to other settings. An explicitly set value of any layer overrides them.
    static let values: [(path: String, text: SettingText)] = [
        ("cache.store", .one("any")), ("cache.store_errors", .one("letter")), ("cache.set_cookie", .one("keep")),
        ("cache.entity_tags", .one("false")), ("cache.credential_fields", .many([])), ("cache.targeted_fields", .many([])),
        ("cache.no_vary_search", .one("false")),
        // The stored response of a slow upstream is not used, because the upstream is connected (§4.2.4).
        ("cache.rescue_after", .one("0")),
    ]
}
