"""What `semcast.testing` gives is what it promises, and semcast does not need it."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from semcast.ids import Source
from semcast.obsolescence import K_MAX
from semcast.protocol import BufferConfig, Overflow, Purging
from semcast.testing import (
    arrivals,
    bitmaps,
    buffer_configs,
    ks,
    messages,
    replacements,
    sources,
    streams,
)
from semcast.wire.message import Message


@given(streams(max_size=15))
def test_a_stream_is_numbered_from_1_and_names_only_what_exists(stream: list[Message]) -> None:
    assert [message.seq for message in stream] == list(range(1, len(stream) + 1))
    assert len({message.source for message in stream}) <= 1
    for message in stream:
        assert int(message.bitmap) >> (message.seq - 1) == 0
        assert not (message.ranked and message.bitmap)


@given(streams(Source(7, 3), k=5, said=replacements(ranked=False, predecessors=False)))
def test_a_stream_is_what_was_asked_for(stream: list[Message]) -> None:
    for message in stream:
        assert message.source == Source(7, 3)
        assert message.bitmap < 1 << 5
        assert not message.ranked


@given(st.lists(streams(max_size=6), max_size=3), st.data())
def test_arrivals_leave_nothing_out(sent: list[list[Message]], data: st.DataObject) -> None:
    every = [message for stream in sent for message in stream]
    once = data.draw(arrivals(sent, duplicates=False))
    assert sorted(map(id, once)) == sorted(map(id, every))
    again = data.draw(arrivals(sent))
    assert {id(message) for message in again} == {id(message) for message in every}


@given(messages(), bitmaps(70), ks(), sources())
def test_raw_parts_stay_within_what_the_wire_carries(
    message: Message, bitmap: int, k: int, source: Source
) -> None:
    assert message.bitmap.bit_length() <= K_MAX
    assert message.key_len <= len(message.body)
    assert bitmap.bit_length() <= 70
    assert 0 <= k <= K_MAX
    assert source == Source(source.sender, source.incarnation)


@given(buffer_configs(), buffer_configs(Purging.WATERMARK, Overflow.RANDOM, 3))
def test_settings_are_valid_and_what_was_asked_for(
    any_one: BufferConfig, one: BufferConfig
) -> None:
    assert any_one.messages_max >= 1
    assert (one.purging, one.overflow) == (Purging.WATERMARK, Overflow.RANDOM)
    assert one.low <= one.high <= one.messages_max <= 3


def run_alone(code: str) -> str:
    """In a process of its own, with the same semcast."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_semcast_itself_never_imports_hypothesis() -> None:
    code = (
        "import sys, semcast, semcast.obsolescence, semcast.protocol, semcast.wire;"
        "print('hypothesis' in sys.modules)"
    )
    assert run_alone(code) == "False"


def test_without_hypothesis_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "try:\n    import semcast.testing\n"
        "except ModuleNotFoundError as error:\n    print(error)"
    )
    assert run_alone(code) == "semcast.testing needs Hypothesis: pip install hypothesis"
