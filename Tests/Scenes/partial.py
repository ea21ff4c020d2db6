"""Scenes in which a part of the upstream fails, or one of several."""
import itertools

from outages import RESCUED, USERS, WITHIN, fill
from play import fails, well
from scene import Not, scene

# What each output says of an upstream of which a part fails.
FAILING = {
    "gauge": (r"^cistern_upstream_up 1$", r'^cistern_upstream_state\{state="failing"\} 1$', r'^cistern_upstream_state\{state="down"\} 0$'),
    "alert": (r"^CisternUpstreamFailing: A part of the requests", Not("CisternUpstreamDown")),
    "page": r"^Look here .*fail.*", "status": (r"(?i)fail", Not(r"\bdown\b")), "upstream": (r"(?i)failing", Not("nothing is known to fail"), Not(r"\bDOWN\b")),
    "stats": r"^upstream +failing\b",
}


@scene("30-percent-failing", "Three of ten responses are 503, whatever is asked for.", fires={"CisternUpstreamFailing": WITHIN}, outputs=FAILING,
       isQuick=True)
def thirty_percent(play):
    play.start()
    fill(play, *USERS)
    play.keep_asking(*USERS, every=1, count=3)
    play.wait(60)
    numbers = itertools.count()
    play.upstream.play(lambda request: (fails(503) if next(numbers) * 3 % 10 < 3 else well)(request))
    play.trouble()
    play.wait(300)
    play.look()


@scene("one-path-failing", "One path of four responds 500 to everybody; the others are well.", fires={"CisternUpstreamFailing": WITHIN},
       outputs={**FAILING, "response": RESCUED, "upstream": (r"/orders", Not(r"\bDOWN\b")), "why": "status 500", "log": "/orders"})
def one_path(play):
    play.start()
    fill(play, *USERS, "/orders")
    play.keep_asking(*USERS, "/orders", every=1, count=3)
    play.wait(60)
    play.upstream.play(lambda request: (fails(500) if request.target == "/orders" else well)(request))
    play.trouble()
    play.wait(300)
    play.look("/orders")


@scene("one-api-of-three", "Of three APIs one is down.", fires={"CisternUpstreamDown{api=orders}": WITHIN}, outputs={
    "response": RESCUED,
    "gauge": (r'^cistern_api_up\{api="orders"\} 0$', r'^cistern_api_up\{api="users"\} 1$', r'^cistern_api_state\{api="orders",state="down"\} 1$',
              r'^cistern_api_state\{api="users",state="up"\} 1$'),
    "alert": r"^CisternUpstreamDown\{api=orders\}: The upstream of orders is down",
    "page": r"(?<=^State\n).*orders.* down.*", "status": r"orders.*\bdown\b", "upstream": r"^orders\n\n\S+: DOWN, since", "log": r"orders.*\bdown\b"})
def one_api_of_three(play):
    upstreams = {name: play.make_upstream() for name in ("users", "orders", "stock")}
    config = "apis:\n" + "".join(f"  - {{name: {name}, path: /{name}/, upstream: 'http://127.0.0.1:{made.port}'}}\n" for name, made in upstreams.items())
    play.start(config=config, url="")
    targets = [f"/{name}/{number}" for name in upstreams for number in (1, 2)]
    fill(play, *targets)
    play.keep_asking(*targets, every=2, count=3)
    play.wait(60)
    upstreams["orders"].play(fails(503))
    play.trouble()
    play.wait(300)
    play.look("/orders/1")


@scene("one-route-failing", "All requests of one configured route get 502; the others are well.", fires={"CisternUpstreamFailing": WITHIN}, outputs={
    **FAILING, "response": RESCUED, "upstream": (r"reports", Not(r"\bDOWN\b"))})
def one_route(play):
    reports = [f"/reports/{number}" for number in range(6)]
    play.start(config="routes: [{name: reports, path: /reports/**}]")
    fill(play, *USERS, *reports)
    play.keep_asking(*USERS, *reports, every=1, count=3)
    play.wait(60)
    play.upstream.play(lambda request: (fails(502) if request.target.startswith("/reports/") else well)(request))
    play.trouble()
    play.wait(300)
    play.look("/reports/1")
