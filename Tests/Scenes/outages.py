"""Scenes in which the upstream fails, as a whole or in part."""
from play import fails, well
from scene import Not, scene

DOWN = {
    "gauge": (r"^cistern_upstream_up 0$", r'^cistern_upstream_state\{state="down"\} 1$'),
    "alert": r"^CisternUpstreamDown: .*\bdown\b.*`cistern upstream`",
    "page": r"\bdown\b",
    "status": r"\bdown\b",
    "upstream": (r"\bdown\b", Not("nothing is known to fail")),
    "log": r"\bdown\b",
}


def fill(play, *targets):
    """Every target is stored before the trouble."""
    for target in targets:
        for client in range(2):
            play.ask(target, client=client)


@scene("503-everywhere", "The upstream responds 503 to everything; clients send a request every four seconds, for five minutes.",
       fires={"CisternUpstreamDown": 120}, isQuick=True, outputs={
           **DOWN, "response": (r"^status 200$", r"^Cache-Status: cistern; hit.*detail="), "why": r"status 503"})
def everything_503(play):
    play.start()
    fill(play, "/users/1", "/users/2", "/users/3")
    play.keep_asking("/users/1", "/users/2", "/users/3", every=4, count=2)
    play.wait(60)
    play.upstream.play(fails(503))
    play.trouble()
    play.wait(300)
    play.look("/users/1")


@scene("outage-that-ends", "The upstream responds 503 to everything for four minutes, and is well again.", fires={"CisternUpstreamDown": 120})
def outage_that_ends(play):
    play.start()
    fill(play, "/users/1", "/users/2")
    play.keep_asking("/users/1", "/users/2", every=4, count=2)
    play.wait(30)
    play.upstream.play(fails(503))
    play.trouble()
    play.wait(240)
    play.upstream.play(well)
    play.recover()
    play.wait(90)
