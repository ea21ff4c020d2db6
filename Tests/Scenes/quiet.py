"""Scenes in which all is well, or only a moment is not: no alert may fire."""
import http.client
import itertools
import json
import socket
import threading
import time

from outages import USERS, fill, fill_and_ask
from partial import start_apis
from play import CLOSE, Certificates, Drip, fails, fresh, response, well
from scene import scene

OK = {200}


def expect_statuses(play, clients, allowed=OK):
    """Clients have got responses, and none but those with allowed statuses."""
    statuses = set(clients.statuses)
    play.expect(statuses and statuses <= allowed, f"statuses {sorted(statuses)} of {clients.targets}, expected {sorted(allowed)}")


def busy(play, *targets, seconds=300, every=2, count=3, allowed=OK):
    """Clients send requests for a while, and get nothing but what is allowed."""
    clients = play.keep_asking(*(targets or USERS), every=every, count=count)
    play.wait(seconds)
    clients.stop()
    expect_statuses(play, clients, allowed)


def disturbed(play, content, wait):
    """Clients send requests for a while. Another client sends bytes on a new connection every three seconds, and closes it after `wait`."""
    is_over = threading.Event()

    def send():
        while not is_over.wait(play.real(3)):
            with socket.create_connection(("127.0.0.1", play.port), source_address=("127.0.1.99", 0)) as sock:
                sock.sendall(content)
                wait(sock)
    threading.Thread(target=send, daemon=True).start()
    busy(play)
    is_over.set()


@scene("hits", "Clients get everything from the store.", isQuick=True)
def hits(play):
    play.make_upstream(fresh)
    play.start()
    busy(play, every=1, count=4)


@scene("misses", "Nothing may be stored, so every request goes to the upstream.")
def misses(play):
    play.make_upstream(lambda request: response(cache_control="no-store"))
    play.start()
    busy(play, every=1)


@scene("upstream-404s", "Half of the targets do not exist.")
def not_found(play):
    play.make_upstream(lambda request: response(404, b'{"error":"not found"}') if "gone" in request.target else well(request))
    play.start()
    busy(play, *USERS, "/gone/1", "/gone/2", "/gone/3", every=1, allowed={200, 404})


@scene("one-failing-request", "One client sends a request each minute that the upstream answers with 503; all others are well.")
def failing_arguments(play):
    play.make_upstream(lambda request: (fails(503) if "q=broken" in request.target else well)(request))
    play.start()
    garbage = play.keep_asking("/search?q=broken", every=60)
    busy(play, every=1)
    play.expect(garbage.statuses, "no failing request was sent")


@scene("garbage", "One client sends malformed requests; the others are well.")
def malformed(play):
    play.start()
    disturbed(play, b"GET /users/1 HTTP/1.1\r\nHost cistern.test\r\n\r\n", lambda sock: sock.recv(1_000))


@scene("slow-by-nature", "One report takes three seconds each time; the other targets are quick.")
def slow(play):
    def report(request):
        return (play.real(3), well(request)) if request.target == "/report" else well(request)
    play.make_upstream(report)
    play.start()
    slow_ones = play.keep_asking("/report", every=6)
    busy(play)
    expect_statuses(play, slow_ones)


@scene("no-traffic", "No client sends anything.")
def no_traffic(play):
    play.start()
    play.wait(400)


@scene("just-started", "Cistern starts with a cold cache, and clients send requests at once.", isQuick=True)
def just_started(play):
    play.start()
    busy(play, *(f"/users/{number}" for number in range(60)), seconds=60, every=0.5, count=4)


@scene("blips", "Single responses are 503: one each minute.")
def blips(play):
    last = [time.monotonic()]

    def blip(request):
        if time.monotonic() - last[0] < play.real(60):
            return well(request)
        last[0] = time.monotonic()
        return fails(503)(request)
    play.make_upstream(blip)
    play.start()
    busy(play, seconds=360, every=1, allowed={200, 503})


@scene("restart", "Cistern is restarted while clients send requests; the upstream is well.")
def restart(play):
    play.start()
    play.keep_asking(*USERS, every=2, count=3)
    play.wait(100)
    play.restart()
    play.wait(200)


@scene("take-over", "Another process takes over without a gap, twice.")
def take_over(play):
    play.start()
    clients = play.keep_asking(*USERS, every=2, count=3)
    for _ in range(2):
        play.wait(80)
        play.take_over()
    play.wait(120)
    expect_statuses(play, clients)


@scene("reload", "The settings are read again, three times, once with another value.")
def reload(play):
    play.start(config="cache: {stale_for: 2d}\n")
    clients = play.keep_asking(*USERS, every=2, count=3)
    for days in (2, 3, 3):
        play.write("cistern.yaml", f"cache: {{stale_for: {days}d}}\n")
        play.wait(60)
        said = play.tool("reload")
        play.expect("refused" not in said, said)
    play.wait(60)
    expect_statuses(play, clients)


@scene("purge", "Everything is purged each minute.")
def purge(play):
    play.make_upstream(fresh)
    play.start()
    play.keep_asking(*USERS, every=1, count=3)
    for _ in range(5):
        play.wait(60)
        play.tool("purge", "--all")


@scene("outage-of-10-seconds", "The upstream responds 503 to everything for ten seconds.", isQuick=True)
def short_outage(play):
    play.start()
    fill_and_ask(play, every=2, count=3)
    play.wait(60)
    play.upstream.play(fails(503))
    play.wait(10)
    play.upstream.play(well)
    play.wait(200)


@scene("redeploy", "The upstream is redeployed twice: it refuses connections for five seconds.")
def redeploy(play):
    play.start()
    fill_and_ask(play, every=1, count=3)
    for _ in range(2):
        play.wait(60)
        play.upstream.down()
        play.wait(5)
        play.upstream.play(well)
    play.wait(150)


@scene("http2-upstream", "The upstream speaks HTTP/2 over TLS.")
def http2(play):
    certificates = Certificates(play.directory)
    origin, port = play.make_upstream(), play.spare_port()
    play.start_other("upstream", f"http://127.0.0.1:{origin.port}", f"https://127.0.0.1:{port}",
                     f"tls.certificates={certificates.file('good.pem')}:{certificates.file('good.key')}")
    play.wait_until("the upstream serves", lambda: socket.create_connection(("127.0.0.1", port)).close() is None)
    play.start(f"upstream.ca_file={certificates.authority}", url=f"https://127.0.0.1:{port}")
    busy(play, every=1)
    play.expect("\ncistern_upstream_http2_connections_total 0\n" not in play.metrics(), "no connection to the upstream speaks HTTP/2")


@scene("several-apis", "Three APIs, of which clients use one.")
def several_apis(play):
    start_apis(play)
    busy(play)


@scene("quiet-period", "No client sends anything for half a minute, three times.")
def quiet_period(play):
    play.start()
    for _ in range(3):
        busy(play, seconds=60, every=1)
        play.wait(30)


@scene("quiet-after-blip", "One request fails, and no client sends anything for five minutes.")
def quiet_after_blip(play):
    play.start()
    fill(play, *USERS)
    play.upstream.play(fails(503))
    play.get("/users/1")
    play.upstream.play(well)
    play.wait(300)


@scene("etags", "Clients and Cistern validate with ETags: most responses are 304.")
def etags(play):
    play.make_upstream(lambda request: response(304, ETag='"1"') if request.fields.get("if-none-match")
                       else response(cache_control="max-age=0", ETag='"1"'))
    play.start()
    validating = play.keep_asking(*USERS, every=3, fields={"If-None-Match": '"1"'})
    busy(play)
    play.expect(304 in validating.statuses, "no client got a 304")


@scene("disconnects", "A client gives up before the response comes, every three seconds.")
def disconnects(play):
    play.make_upstream(lambda request: (play.real(1.2), well(request)) if "slow" in request.target else well(request))
    play.start()
    disturbed(play, b"GET /slow HTTP/1.1\r\nHost: cistern.test\r\n\r\n", lambda _: play.wait(0.5))


@scene("strict-and-well", "Strict mode, with responses that are fresh for ten seconds.")
def strict(play):
    play.make_upstream(lambda request: response(cache_control="max-age=10"))
    play.start("cache.policy=strict")
    busy(play, every=1)


@scene("streams", "Clients read event streams that stay open for a minute.")
def streams(play):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

    def stream(request):
        if request.target != "/events":
            return well(request)
        return (head, *itertools.chain.from_iterable((b"data: 1\n\n", play.real(5)) for _ in range(12)), CLOSE)
    play.make_upstream(stream)
    play.start()
    listeners = play.keep_asking("/events", every=30, count=2)
    busy(play)
    expect_statuses(play, listeners)


@scene("large-contents", "Responses of 1 MiB, and some of 12 MiB, which are too long to be stored.")
def large(play):
    contents = {"/small": json.dumps("x" * (1 << 20)).encode(), "/large": json.dumps("y" * (12 << 20)).encode()}
    play.make_upstream(lambda request: response(content=contents.get(request.target, b"{}"), cache_control="max-age=30"))
    play.start("store.size=64MiB")
    play.keep_asking("/large", every=40)
    busy(play, "/small", every=5)


@scene("rate-limited", "The upstream responds 429 with Retry-After to one client; the others are well.")
def rate_limited(play):
    play.make_upstream(lambda request: response(429, b'{"error":"slow down"}', Retry_After="20") if request.fields.get("authorization") else well(request))
    play.start()
    play.keep_asking(*USERS, every=2, fields={"Authorization": "Bearer greedy"})
    busy(play)


@scene("writes", "Clients read and write.")
def writes(play):
    play.make_upstream(lambda request: response(201, b"{}") if request.method == "POST" else fresh(request))
    play.start()
    play.keep_asking("/users/1", every=3, method="POST")
    busy(play)


@scene("users-with-tokens", "Each user has responses of their own.")
def tokens(play):
    play.start()
    for name in ("ann", "bob"):
        play.keep_asking("/me", every=3, fields={"Authorization": f"Bearer {name}"})
    busy(play)


@scene("rejected-requests", "The upstream rejects every third request with 400, 401, 403 or 422.")
def rejected(play):
    statuses = itertools.cycle((200, 400, 200, 401, 200, 403, 200, 422, 200, 200))
    play.make_upstream(lambda request: response(next(statuses), b'{"error":"no"}', cache_control="no-store"))
    play.start()
    busy(play, every=1, allowed={200, 400, 401, 403, 422})


@scene("probes-and-no-traffic", "No client sends anything, and the probes are well.")
def probes(play):
    play.start("failure.probe=GET /health")
    play.wait(300)
    play.expect("/health" in play.upstream.asked, "no probe was sent")


@scene("closing-upstream", "The upstream closes its connection behind every response, and sometimes before it.")
def closing(play):
    numbers = itertools.count()

    def closes(request):
        if next(numbers) % 40 == 39:
            return (CLOSE,)
        return (response(cache_control="max-age=0", Connection="close"), CLOSE)
    play.make_upstream(closes)
    play.start()
    busy(play, every=1)


@scene("slow-network", "Responses come byte by byte, within a second.")
def slow_network(play):
    play.make_upstream(lambda request: (Drip(well(request), play.real(0.005)),))
    play.start()
    busy(play, every=3)


@scene("drill", "An operator practises an outage of twenty seconds.")
def drill(play):
    play.start("admin.faults=true")
    fill_and_ask(play, every=2, count=3)
    play.wait(60)
    play.tool("drill", "--for", "20s")
    play.wait(150)


@scene("kept-connections", "Clients keep their connections, and the upstream keeps its own.")
def kept(play):
    play.start()
    end = time.monotonic() + play.real(300)
    connection = http.client.HTTPConnection("127.0.0.1", play.port, timeout=20)
    while time.monotonic() < end:
        connection.request("GET", "/users/1", headers={"Host": "cistern.test"})
        got = connection.getresponse()
        got.read()
        play.expect(got.status == 200, f"status {got.status}")
        play.wait(1)
    connection.close()
