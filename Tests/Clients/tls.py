"""What the TLS port agrees to: versions, suites, tickets, and none of the old attacks. By openssl, and by sslyze where that is installed."""

import subprocess
import warnings

from doors import HOST

SUITES_12 = {"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"}
SUITES_13 = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}


def connect(door, *arguments, text=b""):
    """What openssl's client says of a connection."""
    command = ["openssl", "s_client", "-connect", f"{HOST}:{door.port}", "-servername", "localhost", "-CAfile", door.authority, *arguments]
    done = subprocess.run(command, input=text, capture_output=True, timeout=20)
    return (done.stdout + done.stderr).decode(errors="replace")


def is_agreed(said):
    return "Cipher is (NONE)" not in said and "New, " in said or "Reused, " in said


def check(results, cistern):
    door = cistern.tls
    check_versions(results, door)
    check_suites(results, door)
    check_protocols(results, door)
    check_sessions(results, door)
    # Of the authorities that it brings with it.
    warnings.filterwarnings("ignore", module="sslyze")
    try:
        import sslyze
    except ModuleNotFoundError:
        print("left out, since it is not installed: sslyze")
        return
    check_by_sslyze(results, door, sslyze)


def check_versions(results, door):
    for version, is_good in [("-tls1", False), ("-tls1_1", False), ("-tls1_2", True), ("-tls1_3", True)]:
        # At a higher level of security it would not offer what is to be refused.
        said = connect(door, version, "-cipher", "ALL:@SECLEVEL=0")
        results.check("openssl", f"{version} is {'taken' if is_good else 'refused'}", is_agreed(said) == is_good, said[-300:])
    said = connect(door, "-tls1_2")
    results.check("openssl", "nothing is compressed, and the certificate is good", "Compression: NONE" in said and "Verify return code: 0" in said, said)


def check_suites(results, door):
    everything = subprocess.run(["openssl", "ciphers", "-s", "-tls1_2", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"], capture_output=True, check=True)
    taken = {suite for suite in everything.stdout.decode().strip().split(":") if suite not in SUITES_13
             and is_agreed(connect(door, "-tls1_2", "-cipher", f"{suite}:@SECLEVEL=0"))}
    results.check("openssl", "TLS 1.2 has Mozilla's intermediate suites and no others", taken == SUITES_12, taken)
    taken = {suite for suite in [*SUITES_13, "TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256"]
             if is_agreed(connect(door, "-tls1_3", "-ciphersuites", suite))}
    results.check("openssl", "and so has TLS 1.3", taken == SUITES_13, taken)


def check_protocols(results, door):
    for offered, chosen in [("h2,http/1.1", "h2"), ("http/1.1", "http/1.1"), ("http/1.1,h2", "h2"), ("spdy/3,h2", "h2")]:
        said = connect(door, "-alpn", offered)
        results.check("openssl", f"ALPN {offered} is {chosen}", f"ALPN protocol: {chosen}\n" in said, said[-300:])
    said = connect(door, "-alpn", "h3,spdy/3")
    results.check("openssl", "ALPN h3 is told that there is none", "no application protocol" in said, said[-300:])
    results.check("openssl", "no ALPN is HTTP/1.1", "No ALPN negotiated" in connect(door), "something else")


def check_sessions(results, door):
    for version in ("-tls1_2", "-tls1_3"):
        session = f"{door.authority}.session"
        connect(door, version, "-sess_out", session, "-ign_eof", text=b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
        said = connect(door, version, "-sess_in", session)
        results.check("openssl", f"{version}: a ticket is resumed", "Reused, " in said, said[-300:])
        said = connect(door, version, "-sess_in", session, "-servername", "other.example")
        results.check("openssl", f"{version}: but not for another name", "Reused, " not in said, said[-300:])
    said = connect(door, "-tls1_2", "-legacy_renegotiation", text=b"R\n")
    results.check("openssl", "a client's renegotiation is refused", "no renegotiation" in said or "handshake failure" in said, said[-300:])


def check_by_sslyze(results, door, sslyze):
    place = sslyze.ServerNetworkLocation("localhost", door.port, ip_address=HOST)
    request = sslyze.ServerScanRequest(place, network_configuration=sslyze.ServerNetworkConfiguration("localhost", network_timeout=5))
    scanner = sslyze.Scanner()
    scanner.queue_scans([request])
    scan = next(scanner.get_results()).scan_result
    if not scan:
        return results.check("sslyze", "connects", False, "no connection")

    def found(name):
        attempt = getattr(scan, name)
        if attempt.result is None:
            results.check("sslyze", name, False, attempt.error_trace)
        return attempt.result

    def suites(name):
        return {one.cipher_suite.openssl_name or one.cipher_suite.name for one in found(name).accepted_cipher_suites}

    for version in ("ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1"):
        results.check("sslyze", f"{version} is refused", not suites(f"{version}_cipher_suites"), suites(f"{version}_cipher_suites"))
    results.check("sslyze", "TLS 1.2's suites", suites("tls_1_2_cipher_suites") == SUITES_12, suites("tls_1_2_cipher_suites"))
    results.check("sslyze", "TLS 1.3's suites", suites("tls_1_3_cipher_suites") == SUITES_13, suites("tls_1_3_cipher_suites"))
    results.check("sslyze", "no compression", not found("tls_compression").supports_compression, "compressed")
    results.check("sslyze", "no early data", not found("tls_1_3_early_data").supports_early_data, "early data")
    results.check("sslyze", "no injection of change-cipher-spec", not found("openssl_ccs_injection").is_vulnerable_to_ccs_injection, "CCS")
    results.check("sslyze", "no Heartbleed", not found("heartbleed").is_vulnerable_to_heartbleed, "Heartbleed")
    results.check("sslyze", "no ROBOT", "NOT_VULNERABLE" in found("robot").robot_result.name, found("robot").robot_result)
    renegotiation = found("session_renegotiation")
    results.check("sslyze", "no renegotiation of clients", not renegotiation.is_vulnerable_to_client_renegotiation_dos, renegotiation)
    results.check("sslyze", "renegotiation is secure", renegotiation.supports_secure_renegotiation, renegotiation)
    resumption = found("session_resumption")
    results.check("sslyze", "sessions are resumed by ticket", resumption.tls_ticket_resumption_result.name == "FULLY_SUPPORTED",
                  resumption.tls_ticket_resumption_result)
    results.check("sslyze", "a downgrade is noticed", found("tls_fallback_scsv").supports_fallback_scsv, "not noticed")
    curves = {curve.name for curve in found("elliptic_curves").supported_curves}
    results.check("sslyze", "curves", curves == {"X25519", "secp256r1", "secp384r1"}, curves)
