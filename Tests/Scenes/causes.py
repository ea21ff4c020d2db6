"""Scenes in which the upstream cannot be understood or trusted: each output names the cause, in the words of the TLS library or of the parser."""
import ssl

from outages import DOWN_WITHOUT_COPIES, USERS, cold_outage, down, outage
from play import CLOSE, Certificates, compile_library, response, well
from scene import Not, scene


class Demanding(Certificates):
    """Its `demanding` server asks clients for a certificate."""

    def context(self, name):
        if name != "demanding":
            return super().context(name)
        context = super().context("good")
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.authority)
        return context


def caused(words, advice, *others):
    """What each output says of an upstream that is down for this cause.
    - others: what no output says, as it would be wrong."""
    never = [Not(other) for other in others]
    return down(response=(r"^status 50[234]$", words), why=(words, advice, *never), upstream=(words, advice, r": DOWN, since", *never), log=(words, advice))


def partly_stored(request):
    return response(cache_control="no-store") if request.target == "/never-stored" else well(request)


def trusted(play, certificate):
    """An upstream with TLS, which shows another certificate from some moment on."""
    certificates = Demanding(play.directory)
    origin = play.make_upstream(partly_stored, certificates)
    play.start(f"upstream.ca_file={certificates.authority}", url=f"https://127.0.0.1:{origin.port}")
    outage(play, lambda play: origin.play(partly_stored, certificate=certificate), target="/never-stored", targets=(*USERS, "/never-stored"))


@scene("tls-expired", "The upstream's certificate has expired.", fires=DOWN_WITHOUT_COPIES, isQuick=True,
       outputs=caused("certificate has expired", "renew the upstream's certificate", r"upstream\.ca_file"))
def expired(play):
    trusted(play, "expired")


@scene("tls-other-name", "The upstream's certificate is for another name.", fires=DOWN_WITHOUT_COPIES,
       outputs=caused("(IP address|[Hh]ostname) mismatch", r"upstream\.url must have a host for which the certificate is valid", r"upstream\.ca_file"))
def other_name(play):
    trusted(play, "another host")


@scene("tls-self-signed", "The upstream's certificate is signed by itself.", fires=DOWN_WITHOUT_COPIES,
       outputs=caused("self-signed certificate", r"upstream\.ca_file"))
def self_signed(play):
    trusted(play, "self-signed")


@scene("tls-client-certificate", "The upstream asks for a client certificate, and Cistern has none.", fires=DOWN_WITHOUT_COPIES,
       outputs=caused("certificate_required", r"upstream\.client_certificate"))
def client_certificate(play):
    trusted(play, "demanding")


def misplaced(play, steps, at, scheme="http"):
    """Something else listens on the upstream's port before the first request comes.
    - at: "accept" where it speaks first, "handshake" where it waits for bytes."""
    origin = play.make_upstream()
    play.start(url=f"{scheme}://127.0.0.1:{origin.port}")
    origin.play(well, at=at, steps=steps)
    cold_outage(play)


@scene("http-behind-https", "upstream.url begins with https://, and the upstream does not speak TLS.", fires=DOWN_WITHOUT_COPIES,
       outputs=caused(r"(?i)wrong version number|http request|packet length|TLS", r"upstream\.url must begin with http://"))
def http_behind_https(play):
    misplaced(play, (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", CLOSE), "handshake", "https")


@scene("tls-behind-http", "upstream.url begins with http://, and the upstream speaks TLS.", fires=DOWN_WITHOUT_COPIES,
       outputs=caused(r"TLS record", r"upstream\.url must begin with https://"))
def tls_behind_http(play):
    # A fatal alert, unexpected_message.
    misplaced(play, (b"\x15\x03\x01\x00\x02\x02\x0a", CLOSE), "handshake")


@scene("mail-server", "A mail server listens on the upstream's port.", fires=DOWN_WITHOUT_COPIES,
       outputs=caused(r"begins with a reply code as in SMTP", r"upstream\.url must have the host and port of an HTTP server"))
def mail_server(play):
    misplaced(play, (b"220 mail.example ESMTP\r\n", 5.0), "accept")


@scene("malformed-field", "The upstream's responses have a field line without a colon.", fires=DOWN_WITHOUT_COPIES,
       outputs=caused(r"a field line has no colon", r""))
def malformed_field(play):
    misplaced(play, (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nnonsense\r\nContent-Length: 2\r\n\r\n{}", CLOSE), "handshake")


@scene("name-unknown", "The name of the upstream does not resolve.", fires=DOWN_WITHOUT_COPIES,
       outputs=caused("Name or service not known", r"upstream\.url must have a host that the DNS servers of this machine can resolve"))
def name_unknown(play):
    play.start(url="http://upstream.invalid", environment={"LD_PRELOAD": compile_library("no_names", play.directory)})
    cold_outage(play)
