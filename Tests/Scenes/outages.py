"""Scenes in which the whole upstream fails."""
from play import HANG, fails, response, well
from scene import Not, scene

USERS = ("/users/1", "/users/2", "/users/3")
# Seconds from the start of an outage until its alert.
WITHIN = 120
# Alerts of an upstream that is down while requests get no copies.
DOWN_WITHOUT_COPIES = {"CisternUpstreamDown": WITHIN, "CisternCopiesMissing": 180}

# What each output says of an upstream that is down.
DOWN = {
    "gauge": (r"^cistern_upstream_up 0$", r'^cistern_upstream_state\{state="down"\} 1$', r'^cistern_upstream_state\{state="up"\} 0$'),
    "alert": (r"^CisternUpstreamDown: The upstream is down\..*`cistern upstream`", Not("template")),
    "page": (r"^Down The upstream has been down for .+", Not(r"(?i)the upstream responds\b")),
    "status": (r"^The upstream has been down for", Not(r"The upstream responds\b")),
    "upstream": (r": DOWN, since \d{4}-", Not(r"nothing is known to fail")),
    "stats": r"^upstream +DOWN\b",
    "log": r"\bupstream\b.*\bdown\b",
}
RESCUED = (r"^status 200$", r"^Cache-Status: cistern; (hit|fwd=stale).*detail=")


def down(**more):
    return {**DOWN, **more}


def fill(play, *targets, fields=None):
    """Two clients have every target stored before the trouble."""
    for target in targets:
        for client in range(2):
            play.ask(target, fields, client=client)


def fill_and_ask(play, targets=USERS, every=4, count=2, fields=None):
    """Stores all targets, and returns clients that ask for them in turn, together one request in `every` seconds."""
    fill(play, *targets, fields=fields)
    return play.keep_asking(*targets, every=every, count=count, fields=fields)


def respond_503(play):
    play.upstream.play(fails(503))


def refuse(play):
    play.upstream.down()


def begin_outage(play, change=respond_503, seconds=300, lead=60):
    """All is well for `lead` seconds. Then `change` begins the trouble, which goes on for `seconds`."""
    play.wait(lead)
    change(play)
    play.trouble()
    play.wait(seconds)


def outage(play, change=respond_503, seconds=300, target="/users/1", **clients):
    """Clients ask for stored targets, before `change` and for `seconds` afterwards.
    - clients: parameters of `fill_and_ask`."""
    fill_and_ask(play, **clients)
    begin_outage(play, change, seconds)
    play.look(target)


def cold_outage(play):
    """The trouble is there when the first request comes, so nothing is stored."""
    play.keep_asking(*USERS, every=4, count=2)
    play.trouble()
    play.wait(300)
    play.look()


def recover(play, seconds):
    """The upstream is well again, and `seconds` later the gauge says so."""
    play.upstream.play(well)
    play.recover()
    play.wait(seconds)
    play.expect("\ncistern_upstream_up 1\n" in play.metrics(), "the gauge is not 1 after the upstream is well again")


@scene("503-everywhere", "The upstream responds 503 to everything; two clients send a request every four seconds.",
       fires={"CisternUpstreamDown": WITHIN}, isQuick=True,
       outputs=down(response=(*RESCUED, r"detail=\w*(failing|error)"), why=r"status 503", upstream=(r": DOWN, since .*status_503", r"last good response \d", Not("nothing is known"))))
def everything_503(play):
    play.start()
    outage(play)


@scene("503-one-client", "The upstream responds 503 to everything; one client sends a request for one target every four seconds.",
       fires={"CisternUpstreamDown": WITHIN}, outputs=down(response=RESCUED, why=r"status 503"))
def one_client_503(play):
    play.start()
    outage(play, targets=("/users/1",), count=1)


@scene("503-brisk", "The upstream responds 503 to everything; eight clients send twenty requests a second, and stop after two minutes.",
       fires={"CisternUpstreamDown": WITHIN}, outputs=down())
def brisk_503(play):
    play.start()
    clients = fill_and_ask(play, every=0.2, count=8)
    begin_outage(play, seconds=120)
    clients.stop()
    play.wait(180)
    play.look()


@scene("refused", "Nothing listens on the upstream's port.", fires={"CisternUpstreamDown": WITHIN},
       outputs=down(response=(*RESCUED, "detail=(destination_unavailable|connection_refused)"), why="refused", upstream=r": DOWN, since .*\(connection_refused\)"))
def refused(play):
    play.start()
    outage(play, refuse)


@scene("hanging", "The upstream accepts requests and never responds.", fires={"CisternUpstreamDown": WITHIN},
       outputs=down(response=RESCUED, why=r"(?i)(time-?out|too slow|did not|no response|first byte)"))
def hanging(play):
    play.start()
    outage(play, lambda play: play.upstream.play(lambda request: (HANG,)))


@scene("black-hole", "Packets to the upstream are dropped: no connection comes about.", fires={"CisternUpstreamDown": WITHIN},
       outputs=down(response=RESCUED, why=r"(?i)connect"))
def black_hole(play):
    def drop(play):
        play.upstream.change()
        play.upstream.fill_backlog()
    play.start()
    outage(play, drop)


@scene("login-page", "A captive portal redirects everything to its login page.", fires={"CisternUpstreamDown": WITHIN},
       outputs=down(response=RESCUED, why=r"(?i)login"))
def login_page(play):
    play.start()
    # After thirty windows, which are five minutes, redirects to one place count as meant.
    outage(play, lambda play: play.upstream.play(lambda request: response(302, b"", Location="https://portal.invalid/login")), seconds=240)


@scene("html-instead-of-json", "A gateway responds 200 with an HTML page to everything.", fires={"CisternUpstreamDown": WITHIN},
       outputs=down(response=RESCUED, why=r"unexpected type.*such as a web page instead of JSON"))
def html_page(play):
    play.start()
    outage(play, lambda play: play.upstream.play(lambda request: response(200, b"<!doctype html><title>Maintenance</title><p>Soon back", "text/html")))


@scene("cold-cache", "The upstream responds 503 to everything from the start on: nothing is stored, so nothing can be rescued.",
       fires=DOWN_WITHOUT_COPIES,
       outputs=down(response=r"^status 503$", alert=(r"^CisternUpstreamDown: ", r"^CisternCopiesMissing: "), why=r"503 miss"))
def cold_cache(play):
    play.make_upstream(fails(503))
    play.start()
    cold_outage(play)


@scene("cold-cache-refused", "Nothing listens on the upstream's port from the start on, and nothing is stored.",
       fires=DOWN_WITHOUT_COPIES,
       outputs=down(response=(r"^status 50[23]$", r"^Proxy-Status: cistern; error=(connection_refused|destination_unavailable)"), why="refused"))
def cold_cache_refused(play):
    play.make_upstream().down()
    play.start()
    cold_outage(play)


@scene("probes-only", "No client sends anything; the upstream responds 503 to the probes.", fires={"CisternUpstreamDown": WITHIN},
       outputs=down(response=RESCUED))
def probes_only(play):
    play.start("failure.probe=GET /health")
    fill(play, *USERS)
    begin_outage(play)
    play.look()


@scene("probes-refused", "No client sends anything; nothing listens where the probes go.", fires={"CisternUpstreamDown": WITHIN},
       outputs=down(response=RESCUED, upstream=r": DOWN, since .*\(connection_refused\)"))
def probes_refused(play):
    play.start("failure.probe=GET /health")
    fill(play, *USERS)
    begin_outage(play, refuse)
    play.look()


@scene("traffic-stops", "The upstream responds 503 to everything. After two minutes no client sends anything: Cistern checks by itself.",
       fires={"CisternUpstreamDown": WITHIN}, outputs=down(response=RESCUED))
def traffic_stops(play):
    play.start()
    clients = fill_and_ask(play)
    begin_outage(play, seconds=120)
    clients.stop()
    play.wait(10)
    before = len(play.upstream.asked)
    play.wait(480)
    play.expect(len(play.upstream.asked) > before, "Cistern sends no check of its own after the last request")
    play.look()


@scene("traffic-stops-and-recovers", "As before, and the upstream is well again after five minutes without a request: Cistern finds out by itself.",
       fires={"CisternUpstreamDown": WITHIN})
def traffic_stops_and_recovers(play):
    play.start()
    clients = fill_and_ask(play)
    begin_outage(play, seconds=120)
    clients.stop()
    play.wait(300)
    recover(play, 180)


@scene("nothing-to-check-with", "Only requests with credentials failed, and no client sends anything any more: the state becomes unknown.",
       fires={"CisternUpstreamDown": WITHIN}, outputs={
           "gauge": (r"^cistern_upstream_up 0$", r'^cistern_upstream_state\{state="unknown"\} 1$', r'^cistern_upstream_state\{state="down"\} 0$'),
           "alert": r"^CisternUpstreamDown: ", "page": r"^Down .*unknown.*", "status": r"^The state of the upstream is unknown: it was down at the last request",
           "upstream": r"(?i)unknown.*last: down", "stats": r"(?i)^upstream +unknown", "log": r"(?i)\bupstream\b.*\bunknown\b"})
def nothing_to_check_with(play):
    play.start()
    clients = fill_and_ask(play, fields={"Authorization": "Bearer ann"})
    begin_outage(play, seconds=180)
    clients.stop()
    play.wait(480)
    play.look("/nothing", asksLast=True)


@scene("writes-only", "Clients send writes only; the upstream responds 503 to all of them.", fires=DOWN_WITHOUT_COPIES,
       outputs=down(response=r"^status 503$"))
def writes_only(play):
    play.start()
    play.keep_asking("/orders", every=4, count=2, method="POST")
    begin_outage(play)
    play.look("/orders")


@scene("strict", "In strict mode the upstream responds 503 to everything.", fires=DOWN_WITHOUT_COPIES,
       outputs=down(response=r"^status 50[34]$"))
def strict(play):
    play.make_upstream(lambda request: response(cache_control="max-age=0, must-revalidate"))
    play.start("cache.policy=strict")
    outage(play)


@scene("outage-that-ends", "The upstream responds 503 to everything for four minutes, and is well again.", fires={"CisternUpstreamDown": WITHIN},
       isQuick=True)
def outage_that_ends(play):
    play.start()
    fill_and_ask(play)
    begin_outage(play, seconds=240, lead=30)
    recover(play, 90)


@scene("old-copies", "The upstream is down for longer than an hour, and copies that are older than an hour go out.",
       fires={"CisternUpstreamDown": WITHIN, "CisternRescuesOld": None}, outputs={
           "alert": r"^CisternRescuesOld: .* responses that are 1h", "gauge": r'^cistern_served_age_oldest_seconds\{result="rescued"\} \d{4}'})
def old_copies(play):
    # The upstream's own cache has had its responses for an hour already.
    play.make_upstream(lambda request: response(cache_control="max-age=7200", Age="3500"))
    play.start("cache.freshness.maximum=1s")
    outage(play, refuse)
