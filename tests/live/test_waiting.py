"""Who waits at the sockets: the table is whole, nobody is stuck, and the documentation says so."""

import re
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.live.host.clock import FOREVER
from semcast.live.host.timing import KEPT_LAST_NS, KEPT_NS
from semcast.live.host.waiting import _LINES, TABLE, Action, Input, SocketPlace, State

LIVE_MD = Path(__file__).parents[2] / "docs" / "design" / "live.md"
NOW = 1_800_000_000_000_000_000
LED = {State.SLEEPING, State.DOZING, State.WATCHING}
# Inputs that only the thread that leads may give, with and without the lock.
LEADERS = {
    Input.EXPECTED_NOW,
    Input.EXPECTED_LATER,
    Input.NOT_EXPECTED,
    Input.SAW_NOTHING,
    Input.LEADER_BACK,
}
A_READER, ANOTHER = "a", "b"


def test_the_table_has_a_column_for_every_state_and_a_row_for_every_input() -> None:
    head, *lines = _LINES
    assert head == [state.name for state in State]
    assert [line[0] for line in lines] == [found.name for found in Input]
    assert {len(line) for line in lines} == {1 + len(State)}
    assert [len(row) for row in TABLE] == [len(Input)] * len(State)


@pytest.mark.parametrize(("state", "found"), list(product(State, Input)))
def test_every_state_knows_what_to_do_about_every_input(state: State, found: Input) -> None:
    place = SocketPlace()
    place.state = state
    next_state, action = TABLE[state][found]
    assert place.answer(found) is action
    assert place.state is state, "to ask is not to step"
    assert place.step(found) is action
    assert place.state is next_state


def reachable(state: State) -> set[State]:
    """The states that can follow this one, sooner or later."""
    found: set[State] = set()
    new = {state}
    while new:
        found |= new
        new = {TABLE[one][by][0] for one in new for by in Input} - found
    return found


@pytest.mark.parametrize("state", State)
def test_no_state_is_a_trap(state: State) -> None:
    assert reachable(state) == set(State)


@pytest.mark.parametrize(("state", "found"), list(product(LED, set(Input) - LEADERS)))
def test_only_the_leader_changes_the_state_while_it_leads(state: State, found: Input) -> None:
    """It does so without the lock, so nobody else may."""
    assert TABLE[state][found][0] is state


@pytest.mark.parametrize(("state", "found"), list(product(State, set(Input) - LEADERS)))
def test_two_readers_never_lead_at_once(state: State, found: Input) -> None:
    next_state, action = TABLE[state][found]
    assert (action is Action.LEAD) == (state not in LED and next_state in LED)


@pytest.mark.parametrize("state", State)
def test_what_the_engines_thread_sees_without_the_lock_changes_nothing(state: State) -> None:
    for found in (Input.NEAR, Input.FAR, Input.ATTENDED):
        assert TABLE[state][found][0] is state


def test_the_sockets_are_read_by_somebody_whatever_the_state() -> None:
    """A reader leads, or the engine's thread stands in, or it looks in until it finds neglect."""
    for state in set(State) - LED:
        assert TABLE[state][Input.FAR][1] is Action.STAND_IN
        assert TABLE[state][Input.NEGLECTED][1] is Action.TAKE_TURN


# -- what happens, told as the documentation tells it ----------------------------------------------


class Story:
    """A place, and the states that it goes through."""

    def __init__(self) -> None:
        self.place = SocketPlace()
        self.now_ns = NOW
        self.states = [self.place.state]

    def tell(self, action: Action | None) -> Action | None:
        if self.place.state is not self.states[-1]:
            self.states.append(self.place.state)
        return action

    def asks(self, reader: str = A_READER) -> Action | None:
        return self.tell(self.place.ask(reader, False, self.now_ns))

    def expects(self, in_ns: int) -> Action | None:
        until_ns = self.now_ns + 1_000_000_000
        return self.tell(self.place.expect(self.now_ns + in_ns, self.now_ns, until_ns, True))

    def comes_back(self) -> None:
        self.place.leader_is_back()
        self.tell(None)

    def leaves(self, reader: str = A_READER, *, soon_back: bool = False) -> Action | None:
        return self.tell(self.place.leave(reader, soon_back, self.now_ns))

    def finds(self, found: Input) -> Action | None:
        return self.tell(self.place.step(found))


def reads_in_a_loop(story: Story) -> None:
    """Messages are not expected at first, then soon after one another."""
    assert story.asks() is Action.LEAD
    assert story.expects(FOREVER - NOW) is Action.SLEEP
    story.comes_back()
    assert story.finds(Input.NEAR) is Action.LOOK_IN
    assert story.asks() is Action.LEAD
    assert story.expects(0) is Action.WATCH
    assert story.finds(Input.ATTENDED) is Action.NOTHING
    story.comes_back()


def reads_at_regular_times(story: Story) -> None:
    assert story.asks() is Action.LEAD
    assert story.expects(1_000_000) is Action.DOZE
    assert story.finds(Input.SAW_NOTHING) is Action.WATCH
    assert story.finds(Input.SAW_NOTHING) is Action.SLEEP
    story.comes_back()


def goes_away(story: Story) -> None:
    assert story.asks() is Action.LEAD
    story.expects(FOREVER - NOW)
    story.comes_back()
    assert story.finds(Input.NEAR) is Action.LOOK_IN
    assert story.finds(Input.NEGLECTED) is Action.TAKE_TURN
    assert story.finds(Input.FAR) is Action.STAND_IN
    assert story.finds(Input.READY) is Action.TAKE_TURN


def floods(story: Story) -> None:
    """It never waits, and reads the sockets whenever they were not read for a while."""
    for _ in range(3):
        assert story.finds(Input.CALLS) is Action.TAKE_TURN
        assert story.finds(Input.NEAR) is Action.LOOK_IN
        assert story.finds(Input.ATTENDED) is Action.NOTHING
    assert story.finds(Input.NEGLECTED) is Action.TAKE_TURN


def is_idle(story: Story) -> None:
    for _ in range(3):
        assert story.finds(Input.FAR) is Action.STAND_IN
        assert story.finds(Input.DUE) is Action.TAKE_TURN


def leaves_followers(story: Story) -> None:
    assert story.asks() is Action.LEAD
    assert story.asks(ANOTHER) is Action.FOLLOW
    story.comes_back()
    assert story.leaves() is Action.PASS_ON
    assert story.asks(ANOTHER) is Action.LEAD


def is_soon_back(story: Story) -> None:
    assert story.asks() is Action.LEAD
    assert story.asks(ANOTHER) is Action.FOLLOW
    story.comes_back()
    assert story.leaves(soon_back=True) is Action.KEEP
    assert story.asks(ANOTHER) is Action.FOLLOW
    story.now_ns += KEPT_NS - 1
    assert story.asks() is Action.LEAD


def is_not_back(story: Story) -> None:
    assert story.asks() is Action.LEAD
    assert story.asks(ANOTHER) is Action.FOLLOW
    story.comes_back()
    assert story.leaves(soon_back=True) is Action.KEEP
    story.now_ns += KEPT_NS
    assert story.place.is_kept_in_vain(story.now_ns)
    assert story.tell(story.place.give_up()) is Action.PASS_ON
    assert story.asks(ANOTHER) is Action.LEAD


STORIES: dict[str, Callable[[Story], None]] = {
    "An application that reads in a loop": reads_in_a_loop,
    "One that reads at regular times": reads_at_regular_times,
    "One that goes away": goes_away,
    "A flood of sends": floods,
    "An idle group": is_idle,
    "A leader that leaves while followers wait": leaves_followers,
    "A reader that is soon back": is_soon_back,
    "A reader that does not come back": is_not_back,
}


@pytest.mark.parametrize("name", STORIES)
def test_stories_go_through_the_states_that_the_documentation_names(name: str) -> None:
    story = Story()
    STORIES[name](story)
    line = re.search(rf"^- \*\*{re.escape(name)}\*\*: (.+?)\. ", LIVE_MD.read_text(), re.MULTILINE)
    assert line is not None, f"docs/design/live.md does not say what happens: {name}"
    assert line[1] == " → ".join(f"`{state.name}`" for state in story.states)


# -- the documentation -----------------------------------------------------------------------------


def cell(state: State, found: Input) -> str:
    next_state, action = TABLE[state][found]
    if next_state is not state:
        return f"{action.name} → {next_state.name}"
    return "—" if action is Action.NOTHING else action.name


def rows(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if line.startswith("| `")]


def test_the_documentation_has_the_table() -> None:
    expected = [
        " | ".join([f"| `{found.name}`", *(cell(state, found) for state in State)]) + " |"
        for found in Input
    ]
    text = LIVE_MD.read_text()
    head = "| input | " + " | ".join(state.name for state in State) + " |"
    assert head in text, f"the table in docs/design/live.md begins with {head}"
    table = text[text.index(head) :].split("\n\n", 1)[0]
    assert rows(table.splitlines()) == expected


@pytest.mark.parametrize("kind", [State, Input, Action])
def test_the_documentation_explains_every_name(kind: type[State | Input | Action]) -> None:
    text = LIVE_MD.read_text()
    assert [one.name for one in kind if f"`{one.name}`" not in text] == []


# -- the place that is kept ------------------------------------------------------------------------


@given(st.integers(0, 2 * KEPT_NS))
def test_a_place_is_kept_for_one_reader_and_for_a_while(later_ns: int) -> None:
    place = SocketPlace()
    assert place.leave(A_READER, True, NOW) is Action.KEEP
    now_ns = NOW + later_ns
    in_time = later_ns < KEPT_NS
    assert place.is_kept(now_ns) == in_time
    assert place.is_kept_in_vain(now_ns) == (not in_time)
    assert place.leave(ANOTHER, False, now_ns) is (Action.NOTHING if in_time else Action.PASS_ON)


@pytest.mark.parametrize(("later_ns", "action"), [(0, Action.FOLLOW), (KEPT_NS, Action.LEAD)])
def test_others_follow_only_while_a_place_is_kept(later_ns: int, action: Action) -> None:
    place = SocketPlace()
    place.leave(A_READER, True, NOW)
    assert place.ask(ANOTHER, False, NOW + later_ns) is action


def test_a_place_is_given_up_if_the_group_that_it_is_kept_for_is_left() -> None:
    place = SocketPlace()
    place.leave(A_READER, True, NOW)
    assert place.was_kept_for(A_READER)
    assert not place.was_kept_for(ANOTHER)
    assert place.give_up() is Action.PASS_ON
    assert not place.was_kept_for(A_READER)
    assert place.ask(ANOTHER, False, NOW) is Action.LEAD


def test_the_engine_looks_often_as_long_as_places_are_kept_now_and_then() -> None:
    place = SocketPlace()
    far_ns = NOW + FOREVER // 4
    assert place.look_ns(far_ns, NOW) == far_ns
    place.leave(A_READER, True, NOW)
    place.ask(A_READER, False, NOW)
    assert place.look_ns(far_ns, NOW) == NOW + KEPT_NS
    last_ns = NOW + KEPT_NS + KEPT_LAST_NS
    assert place.look_ns(far_ns, last_ns) == last_ns + KEPT_NS
    assert place.look_ns(far_ns, last_ns + 1) == far_ns


def test_who_owes_the_rest_of_a_turn_does_it_before_it_leads_but_follows_at_once() -> None:
    place = SocketPlace()
    assert place.ask(A_READER, True, NOW) is Action.SETTLE
    assert place.ask(A_READER, False, NOW) is Action.LEAD
    assert place.leader == A_READER
    assert place.ask(ANOTHER, True, NOW) is Action.FOLLOW
    assert place.leader == A_READER


def test_a_leader_that_cannot_doze_sleeps() -> None:
    """There are descriptors for which the kernel counts only milliseconds."""
    place = SocketPlace()
    place.ask(A_READER, False, NOW)
    assert place.expect(NOW + 1, NOW, NOW + 2, can_doze=False) is Action.SLEEP
    assert place.expect(NOW, NOW, NOW + 2, can_doze=False) is Action.WATCH
    assert place.expect(NOW + 2, NOW, NOW + 2, can_doze=True) is Action.SLEEP
