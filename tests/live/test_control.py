"""Questions to a running group: everybody answers or is named; only the secret is heard."""

import json
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.live.company import joined, wait_until
from tests.live.processes import DEADLINE_S, SECRET, members, new_group
from tests.live.test_metrics import free_port

from semcast.errors import ConfigError, NoAnswerError, RemoteProtocolError
from semcast.ids import Source
from semcast.live.blocking import Group
from semcast.live.config import GroupConfig
from semcast.live.meeting import control
from semcast.live.meeting.asker import Answers, Asker, _Hearing
from semcast.live.meeting.asker_ids import ASKERS, asker_ids
from semcast.live.meeting.control import Responder
from semcast.live.meeting.door import NOTHING, Came
from semcast.live.meeting.session import Session
from semcast.live.sockets.address import Address

NAMES = ["a", "b", "c"]
HERE = ("127.0.0.1", 1)
OTHER = b"another secret of these tests 123"


def asker(group: str, others: dict[int, bytes] | None = None, **changed: Any) -> Asker:
    settings: dict[str, Any] = {
        "secret": SECRET, "size": 1, "interface": "lo", "transport": "multicast",
    } | changed  # fmt: skip
    return Asker(GroupConfig(group, **settings), others)


@pytest.fixture(scope="module")
def group() -> Iterator[dict[str, Group]]:
    with joined(NAMES) as found:
        yield found


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is asked answers, however busy this machine is; only then is all well."""
    monkeypatch.setattr(Asker.ask, "__defaults__", (DEADLINE_S,))


def name_of(group: dict[str, Group]) -> str:
    return group["a"].config.group


@pytest.mark.parametrize("what", ["members", "stats", "keys"])
def test_everybody_answers_for_itself(group: dict[str, Group], what: str) -> None:
    with asker(name_of(group)) as one:
        answers = one.ask(what)
    assert sorted(answers.by_name) == NAMES
    assert answers.missing == ()
    assert answers.refused == {}
    for name, answer in answers.by_name.items():
        if what == "members":
            told = answer.body["members"]
            assert sorted(view["name"] for view in told) == NAMES
            assert told[0]["name"] == name
        elif what == "stats":
            assert answer.body["stats"].keys() == group[name].stats().keys()
        else:
            assert [one["key_id"] for one in answer.body["keys"]] == [1]


def test_whoever_asks_does_not_become_a_member(group: dict[str, Group]) -> None:
    with asker(name_of(group)) as one:
        one.ask("members")
    for member in group.values():
        assert sorted(view.name for view in member.view) == NAMES
        assert member._engine.session.roster.strangers == {}


def test_many_askers_leave_room_for_members(group: dict[str, Group]) -> None:
    """Replay protection remembers who asked; however often, that is no more than a few hundred."""
    drawn = set()
    with asker(name_of(group)) as one:
        for _ in range(3 * ASKERS):
            drawn.add(one._sealer()._source.sender)
    assert drawn <= asker_ids()
    assert len(asker_ids()) == ASKERS


@pytest.mark.parametrize("changed", [{"secret": "not the secret of the group"}, {"key_id": 7}])
def test_without_the_right_secret_there_is_no_answer(
    group: dict[str, Group], changed: dict[str, Any]
) -> None:
    with asker(name_of(group), **changed) as one, pytest.raises(NoAnswerError, match="secret"):
        one.ask("members", 0.3)


def test_a_group_that_is_not_there_does_not_answer() -> None:
    with asker("no such group") as one, pytest.raises(NoAnswerError, match="no such group"):
        one.ask("members", 0.3)


def test_whoever_does_not_answer_is_named() -> None:
    name = new_group()
    with members(NAMES, group=name) as group:
        group["b"].kill()
        with asker(name) as one:
            found: list[Answers] = []

            def others_answered() -> bool:
                """They are as busy as this machine is."""
                with suppress(NoAnswerError):
                    found.append(one.ask("members", 1.0))
                return bool(found) and len(found[-1].by_name) == 2

            wait_until(others_answered)
            answers = found[-1]
    assert sorted(answers.by_name) == ["a", "c"]
    assert answers.missing == ("b",)


def test_keys_rotate_without_losing_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    # A question that is repeated is answered again, and the second time nothing was changed.
    monkeypatch.setattr("semcast.live.meeting.asker._REPEAT_S", DEADLINE_S)
    with joined(["a", "b"]) as group:
        name = name_of(group)
        group["a"].send(b"before")
        with asker(name, {2: OTHER}) as one:
            installed = one.ask("install", key_id=2, secret=OTHER.hex())
            assert sorted(installed.by_name) == ["a", "b"]
            assert all(answer.body == {"changed": True} for answer in installed.by_name.values())
            group["a"].send(b"installed")
            assert one.ask("use", key_id=2).refused == {}
            group["a"].send(b"used")
            again = one.ask("use", key_id=2)  # it may be repeated
            assert [answer.body["changed"] for answer in again.by_name.values()] == [False, False]
        with asker(name, secret=OTHER, key_id=2) as one:
            assert one.ask("remove", key_id=1).refused == {}
            answers = one.ask("keys")
        assert {tuple(k["key_id"] for k in a.body["keys"]) for a in answers.by_name.values()} == {
            (2,)
        }
        group["b"].send(b"removed")
        for member in group.values():
            got = [member.receive(timeout=60).payload for _ in range(4)]
            assert sorted(got) == [b"before", b"installed", b"removed", b"used"]
        group["a"].drain(60)


@pytest.mark.parametrize(
    ("what", "more", "why"),
    [
        ("use", {"key_id": 9}, "key 9 is not installed"),
        ("remove", {"key_id": 1}, "key 1 is in use"),
        ("install", {"key_id": 1, "secret": OTHER.hex()}, "installed with another secret"),
        ("install", {"key_id": 3, "secret": "00"}, "the secret has 1 bytes"),
        ("install", {"key_id": 3, "secret": "no hex"}, "not in hexadecimal"),
        ("install", {"key_id": 3}, "the secret has 0 bytes"),
        ("install", {"key_id": 1 << 40, "secret": OTHER.hex()}, "key id"),
        ("use", {}, "without its number"),
        ("use", {"key_id": True}, "without its number"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(
    group: dict[str, Group], what: str, more: dict[str, Any], why: str
) -> None:
    with asker(name_of(group)) as one:
        answers = one.ask(what, **more)
        assert sorted(answers.refused) == NAMES
        assert all(why in told for told in answers.refused.values())
        assert not any(OTHER.hex() in told for told in answers.refused.values())
        keys = one.ask("keys")
    assert {tuple(k["key_id"] for k in a.body["keys"]) for a in keys.by_name.values()} == {(1,)}


def test_a_group_in_the_clear_answers_but_has_no_keys() -> None:
    with (
        joined(["a", "b"], secret=None) as group,
        asker(name_of(group), secret=None, insecure=True) as one,
    ):
        assert sorted(one.ask("members").by_name) == ["a", "b"]
        for what in ("keys", "install"):
            answers = one.ask(what, key_id=2, secret=OTHER.hex())
            assert all("not sealed" in why for why in answers.refused.values())
            assert len(answers.refused) == 2


def test_unicast_needs_the_address_of_one_member_to_ask_all() -> None:
    port = free_port()
    with joined(
        ["a", "b"], transport="unicast", host="127.0.0.1", interface="", a={"port": port},
        b={"peers": [f"127.0.0.1:{port}"]},
    ) as group:  # fmt: skip
        peers = (f"127.0.0.1:{port}",)
        with asker(name_of(group), transport="unicast", peers=peers) as one:
            assert sorted(one.ask("stats").by_name) == ["a", "b"]


def test_unicast_without_anybody_to_ask_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="--peers"):
        asker("any", transport="unicast")


def test_a_long_answer_comes_in_parts(group: dict[str, Group]) -> None:
    sessions = [one._engine.session for one in group.values()]
    before = [one.transport.path_mtu_bytes for one in sessions]
    for session in sessions:
        session.transport.path_mtu_bytes = 576
    try:
        with asker(name_of(group)) as one:
            answers = one.ask("stats")
    finally:
        for session, mtu_bytes in zip(sessions, before, strict=True):
            session.transport.path_mtu_bytes = mtu_bytes
    assert all(len(answer.body["stats"]) > 20 for answer in answers.by_name.values())


class Overheard:
    """A member's session, of which only what it sends is replaced."""

    def __init__(self, session: Session) -> None:
        self.handlers: dict[str, Any] = {}
        self.sent: list[tuple[Any, Address]] = []
        self.again: list[dict[str, Any]] = []
        self.here = HERE
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def send_note(self, note: Any, to: Address) -> None:
        self.sent.append((note, to))

    def answer(self, note: Any, came: Came) -> None:
        assert came.address == self.here
        self.again.append(note)


def overheard(group: dict[str, Group]) -> tuple[Overheard, Responder]:
    session = Overheard(group["a"]._engine.session)
    return session, Responder(session, dict, list)  # type: ignore[arg-type]


def came(now_ns: int = 0) -> Came:
    return Came(Source(1, 1), HERE, 1, 100, now_ns)


def ask(
    session: Overheard, responder: Responder, said: dict[str, Any], now_ns: int = 0
) -> dict[str, Any]:
    """Ask, and ask again with the token that comes back; returns what was asked the second time."""
    responder.on_ask(said | {"token": NOTHING}, came(now_ns))
    again = said | {"token": session.again[-1]["token"]}
    responder.on_ask(again, came(now_ns))
    return again


@given(
    st.dictionaries(
        st.sampled_from(["what", "id", "key_id", "secret", "token"]),
        st.none() | st.booleans() | st.integers() | st.text(max_size=40) | st.lists(st.none()),
    )
)
def test_any_question_gets_a_token_to_where_it_came_from_or_is_refused(
    group: dict[str, Group], said: dict[str, Any]
) -> None:
    session, responder = overheard(group)
    with suppress(RemoteProtocolError):
        responder.on_ask({"what": "keys", "id": "n", "token": NOTHING} | said, came())
        assert [note["kind"] for note in session.again] == ["again"]
    assert session.sent == []


def test_a_question_with_its_token_is_answered_to_where_it_came_from(
    group: dict[str, Group],
) -> None:
    session, responder = overheard(group)
    ask(session, responder, {"what": "keys", "id": "n"})
    assert [to for _, to in session.sent] == [HERE]


def test_no_more_answers_a_second_than_the_bound(
    group: dict[str, Group], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, responder = overheard(group)
    monkeypatch.setattr(responder, "_second", 5)
    monkeypatch.setattr("semcast.live.meeting.control.time", SimpleNamespace(monotonic=lambda: 5.5))
    asked = ask(session, responder, {"what": "keys", "id": "x"})
    for _ in range(2 * control.ANSWERS_PER_S_MAX):
        responder.on_ask(asked, came())
    assert len(session.sent) + len(session.again) == control.ANSWERS_PER_S_MAX


# -- tokens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", [*control.INQUIRIES, *control.CHANGES])
@pytest.mark.parametrize(
    "other",
    [
        {"said": {"id": "another"}},
        {"said": {"what": "another"}},
        {"address": ("127.0.0.1", 2)},
        {"address": ("127.0.0.2", 1)},
        {"now_ns": 2 * control.TOKEN_PERIOD_NS},
        {"process": "another"},
    ],
    ids=["question", "kind", "port", "host", "later", "process"],
)
def test_a_token_is_for_one_question_from_one_address_at_one_time_to_one_process(
    group: dict[str, Group], what: str, other: dict[str, Any]
) -> None:
    """Whatever of that is not so, nothing is answered but another token, and nothing changes."""
    session, responder = overheard(group)
    said = {"what": what, "id": "n", "key_id": 7, "secret": OTHER.hex()}
    responder.on_ask(said | {"token": NOTHING}, came())
    again = said | {"token": session.again[-1]["token"]} | other.get("said", {})
    if again["what"] == "another":
        again["what"] = "keys" if what != "keys" else "use"
    if "process" in other:
        session._session = group["b"]._engine.session
    session.again.clear()
    before = group["a"].keys(), group["b"].keys()
    session.here = other.get("address", HERE)
    responder.on_ask(again, Came(Source(1, 1), session.here, 1, 100, other.get("now_ns", 0)))
    assert [note["kind"] for note in session.again] == ["again"]
    assert session.sent == []
    assert (group["a"].keys(), group["b"].keys()) == before


def test_a_change_that_somebody_repeats_later_is_not_made_again(group: dict[str, Group]) -> None:
    """While its token is good, however many changes came meanwhile; afterwards it has none."""
    session, responder = overheard(group)
    ring = group["a"]._engine.session.keys
    install = {"what": "install", "id": "one", "key_id": 7, "secret": OTHER.hex()}
    recorded = ask(session, responder, install)
    ask(session, responder, {"what": "remove", "id": "two", "key_id": 7})
    for number in range(2 * control.CHANGES_MAX):
        ask(session, responder, {"what": "remove", "id": f"{number}", "key_id": 9})
    assert "ask again later" in told(session)[-1]["why"]
    for period in range(5):
        responder.on_ask(recorded, came(period * control.TOKEN_PERIOD_NS))
        assert 7 not in ring  # type: ignore[operator]


def told(session: Overheard) -> list[dict[str, Any]]:
    """What was answered, one part each."""
    return [json.loads(note["text"]) for note, _ in session.sent]


def test_a_change_that_is_asked_for_again_is_answered_as_before(group: dict[str, Group]) -> None:
    """The first answer may have been lost: it was this question that changed something."""
    session, responder = overheard(group)
    install = {"what": "install", "id": "one", "key_id": 7, "secret": OTHER.hex()}
    try:
        for said in (install, install, install | {"id": "two"}):
            ask(session, responder, said)
        assert [answer["body"]["changed"] for answer in told(session)] == [True, True, False]
    finally:
        ask(session, responder, {"what": "remove", "id": "three", "key_id": 7})


def test_few_changes_are_remembered(group: dict[str, Group]) -> None:
    """And they are forgotten only when no token for them is good any more."""
    session, responder = overheard(group)
    for number in range(3 * control.CHANGES_MAX):
        said = {"what": "remove", "id": f"{number}", "key_id": 9}
        ask(session, responder, said, number * control.TOKEN_PERIOD_NS)
    assert all(answer["ok"] for answer in told(session))
    assert len(responder._changes) == control.CHANGES_MAX


NOTES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda one: (
        st.lists(one, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "id", "part", "parts", "text", "members"]), one)
    ),
    max_leaves=8,
)


@given(NOTES, NOTES, NOTES, st.text(max_size=30))
def test_any_answer_makes_sense_or_is_refused(part: Any, parts: Any, text: Any, body: str) -> None:
    notes = [
        {"kind": "answer", "id": "n", "part": part, "parts": parts, "text": text},
        {"kind": "answer", "id": "n", "part": 0, "parts": 1, "text": body},
        {"kind": "answer", "id": "n", "part": 0, "parts": 1, "text": json.dumps(text)},
        {"kind": "again", "id": "n", "token": text},
        part,
    ]
    for note in notes:
        try:
            hearing = _Hearing("n", str.encode)
            assert hearing.on_note(json.dumps(note).encode(), Source(1, 1)) is None
        except RemoteProtocolError:
            continue
