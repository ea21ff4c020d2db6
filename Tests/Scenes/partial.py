"""Scenes in which a part of the upstream fails, or one of several."""
import itertools

from outages import RESCUED, USERS, WITHIN, outage
from play import fails, well
from scene import Not, scene

# What each output says of an upstream of which a part fails.
FAILING = {
    "gauge": (r"^cistern_upstream_up 1$", r'^cistern_upstream_state\{state="failing"\} 1$', r'^cistern_upstream_state\{state="down"\} 0$'),
    "alert": (r"^CisternUpstreamFailing: A part of the requests", Not("CisternUpstreamDown")),
    "page": r"^Degraded .*fail.*", "status": (r"(?i)fail", Not(r"\bdown\b")), "upstream": (r"(?i)failing", Not("nothing is known to fail"), Not(r"\bDOWN\b")),
    "stats": r"^upstream +failing\b",
}


def fail_partly(play, doesFail, status, targets=USERS, target="/users/1"):
    """Three clients send together a request each second. After a minute the upstream responds `status` to those for which `doesFail` returns true."""
    def change(play):
        play.upstream.play(lambda request: (fails(status) if doesFail(request) else well)(request))
    outage(play, change, target=target, targets=targets, every=1, count=3)


@scene("30-percent-failing", "Three of ten responses are 503, whatever is asked for.", fires={"CisternUpstreamFailing": WITHIN}, outputs=FAILING,
       isQuick=True)
def thirty_percent(play):
    numbers = itertools.count()
    play.start()
    fail_partly(play, lambda request: next(numbers) * 3 % 10 < 3, 503)


@scene("one-path-failing", "One path of four responds 500 to everybody; the others are well.", fires={"CisternUpstreamFailing": WITHIN},
       outputs={**FAILING, "response": RESCUED, "upstream": (r"/orders", Not(r"\bDOWN\b")), "why": "status 500", "log": "/orders"})
def one_path(play):
    play.start()
    fail_partly(play, lambda request: request.target == "/orders", 500, (*USERS, "/orders"), "/orders")


def start_apis(play):
    """Starts Cistern before three APIs, and returns the upstream of each by its name."""
    upstreams = {name: play.make_upstream() for name in ("users", "orders", "stock")}
    config = "apis:\n" + "".join(f"  - {{name: {name}, path: /{name}/, upstream: 'http://127.0.0.1:{made.port}'}}\n" for name, made in upstreams.items())
    play.start(config=config, url="")
    return upstreams


@scene("one-api-of-three", "Of three APIs one is down.", fires={"CisternUpstreamDown{api=orders}": WITHIN}, outputs={
    "response": RESCUED,
    "gauge": (r'^cistern_api_up\{api="orders"\} 0$', r'^cistern_api_up\{api="users"\} 1$', r'^cistern_api_state\{api="orders",state="down"\} 1$',
              r'^cistern_api_state\{api="users",state="up"\} 1$'),
    "alert": r"^CisternUpstreamDown\{api=orders\}: The upstream of orders is down",
    "page": r"(?<=^State\n).*orders.* down.*", "status": r"orders.*\bdown\b", "upstream": r"^orders\n\n\S+: DOWN, since", "log": r"orders.*\bdown\b"})
def one_api_of_three(play):
    upstreams = start_apis(play)
    targets = [f"/{name}/{number}" for name in upstreams for number in (1, 2)]
    outage(play, lambda play: upstreams["orders"].play(fails(503)), target="/orders/1", targets=targets, every=2, count=3)


@scene("one-route-failing", "All requests of one configured route get 502; the others are well.", fires={"CisternUpstreamFailing": WITHIN}, outputs={
    **FAILING, "response": RESCUED, "upstream": (r"reports", Not(r"\bDOWN\b"))})
def one_route(play):
    reports = [f"/reports/{number}" for number in range(6)]
    play.start(config="routes: [{name: reports, path: /reports/**}]")
    fail_partly(play, lambda request: request.target.startswith("/reports/"), 502, (*USERS, *reports), "/reports/1")
