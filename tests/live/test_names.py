"""Messages say the name of the member that sent them, whichever of its lives it was in."""

import pytest
from tests.live.fake_world import World

from semcast.ids import Source
from semcast.wire.decode import Decoder


@pytest.mark.parametrize("how", ["members", "size"])
def test_a_message_of_a_former_life_says_the_name_of_its_sender(how: str) -> None:
    """Nobody but a and c has what b sent when it was killed; its next life gets it from them."""
    world = World()
    if how == "size":
        world.settings |= {"members": (), "size": 3}
    a, b, c = world.gather()
    for number in range(3):
        b.send(b"%d" % number)
    world.end(b, "crash")
    world.network.run(seconds=2.0)
    assert a.waiting == c.waiting == 3
    former = b.session.me
    b = world.join("b")
    assert world.network.run(lambda: b.complete and b.waiting == 3)
    for member in (a, b, c):
        for message in member.receive_many():
            assert message.source == former
            assert message.sender == "b"


def test_a_name_is_said_of_all_lives_of_a_sender_known_and_unknown() -> None:
    decoder = Decoder(sources_max=2)
    first = decoder.sources.intern(Source(7, 1))
    decoder.sources.name(7, "b")
    assert [first.name, decoder.sources.intern(Source(7, 2)).name] == ["b", "b"]
    # One that finds no room among those that are remembered has a name all the same.
    assert decoder.sources.intern(Source(7, 3)).name == "b"
    assert decoder.sources.intern(Source(8, 1)).name == ""
