"""`semcast demo`: one slow reader, under four policies, with the real parts."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from semcast.cli._output import JsonOption, print_json, print_table, print_words

if TYPE_CHECKING:
    from semcast.cli._slow_reader import Outcome, Story

POLICIES: Final = {
    "off": "wait",
    "drop-new": "drop new",
    "random": "drop any",
    "eager": "semcast",
}


def demo(
    seconds: Annotated[
        int, typer.Option("--seconds", min=1, max=600, help="Virtual seconds of traffic.")
    ] = 20,
    seed: Annotated[int, typer.Option("--seed", help="Of the traffic and the dropping.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Watch one slow reader under four policies; then what was predicted, and a forgery.

    \b
    Example:
      semcast demo --seconds 60 --json
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.cli._slow_reader import Story, forgery_refused, run
    from semcast.model import purge as model

    story = Story(seconds=seconds, seed=seed)
    outcomes = [run(story, policy) for policy in POLICIES]
    pmf = model.f_rd(story.share_replaced, story.keys)
    expected = model.purge_ratio(pmf, story.buffer_messages, 64)
    needed = 1 - story.reader_rate_msg_s / story.sender_rate_msg_s
    refused = forgery_refused()
    if as_json:
        print_json(
            {
                "outcomes": [vars(outcome) for outcome in outcomes],
                "purge_ratio_needed": needed,
                "purge_ratio_expected": expected,
                "forgery_refused": refused,
            }
        )
        return
    _print(story, outcomes, needed, expected, refused)


def _print(
    story: "Story", outcomes: "list[Outcome]", needed: float, expected: float, refused: bool
) -> None:
    print_words(
        f"A feed of {story.sender_rate_msg_s} messages a second about {story.keys} stocks; "
        f"{1 - story.share_replaced:.0%} are trades that nothing replaces.",
        f"One reader is fast; the other manages {story.reader_rate_msg_s} a second and has room "
        f"for {story.buffer_messages}. {story.seconds} virtual seconds:",
    )
    rows = [
        (
            POLICIES[outcome.policy],
            f"{outcome.sender_rate_msg_s:.0f}/s",
            f"{outcome.slow_reader_rate_msg_s:.0f}/s",
            f"{outcome.not_delivered}",
            f"{outcome.lost}",
            f"{outcome.age_max_ms:.0f} ms",
        )
        for outcome in outcomes
    ]
    columns = ["when full", "sender and fast reader", "slow reader", "not delivered", "lost"]
    print_table("The slow reader", [*columns, "oldest taken"], rows)
    purged = outcomes[-1].not_delivered / story.seconds / story.sender_rate_msg_s
    print_words(
        "Lost: not delivered, and nothing replaced it. "
        f"For the slow reader to keep up, {needed:.0%} must be purged; the closed form expects "
        f"that up to {expected:.0%} of this traffic can be, and {purged:.0%} was.",
        "A datagram with one bit flipped on the way was "
        + ("refused by its seal." if refused else "ACCEPTED: this is a bug."),
        "Next: semcast model purge --help, semcast profile --help, docs/ARCHITECTURE.md",
    )
