"""Scenes in which all is well: no alert may fire."""
from play import fresh
from scene import well_scene


@well_scene("hits", "Clients get everything from the store.", isQuick=True)
def hits(play):
    play.make_upstream(fresh)
    play.start()
    clients = play.keep_asking("/users/1", "/users/2", every=1, count=4)
    play.wait(300)
    play.expect(set(clients.statuses) == {200}, f"responses: {set(clients.statuses)}")
