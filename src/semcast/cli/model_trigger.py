"""`semcast model trigger`: buffer, rate and round-trip time in; when to start a round out."""

import math
from typing import Annotated

import typer

from semcast.cli._output import JsonOption, print_json, print_table, print_words
from semcast.model import trigger as model

_BINDING_WORDS = {
    "first_round": "what arrives while the first round runs must fit",
    "second_round": "what arrives during a second round that follows at once must fit too",
    "both": "one round and two rounds in a row limit it alike",
}


def trigger(
    buffer: Annotated[int, typer.Option("--buffer", help="Output buffer, in messages.")],
    rate: Annotated[
        float, typer.Option("--rate", help="What each member sends, in messages per millisecond.")
    ],
    rtt: Annotated[
        float, typer.Option("--rtt", help="Round-trip time of the stability protocol, in ms.")
    ],
    alpha: Annotated[
        float,
        typer.Option("--alpha", help="Share of the waiting messages that a round finds stable."),
    ] = 1.0,
    messages: Annotated[
        int | None,
        typer.Option("--messages", help="Messages that each member sends in all, to count rounds."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """How many messages may wait before a stability round must start?

    The rate is in messages per millisecond and the round-trip time in milliseconds.

    \b
    Example:
      semcast model trigger --buffer 100 --rate 0.2 --rtt 50 --alpha 0.9
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    result = model.trigger(buffer, rate, rtt, alpha)
    exact_rounds = None
    if messages is not None:
        exact_rounds = model.stability_rounds(messages, alpha, result.messages)
    rounds = None if exact_rounds is None else math.ceil(exact_rounds)
    if as_json:
        print_json(
            {
                "trigger_messages": result.messages,
                "trigger_exact_messages": float(result.exact),
                "round_messages": float(result.round_messages),
                "binding_constraint": result.binding,
                "alpha_crossover": float(result.alpha_crossover),
                "sustainable": result.sustainable,
                "stability_rounds": rounds,
            }
        )
        return
    print_table("Stability trigger", ["", "value"], _rows(result))
    print_words(*_sentences(result, messages, rounds))


def _rows(result: model.Trigger) -> list[tuple[str, str]]:
    return [
        ("start a round at, messages waiting", str(result.messages)),
        ("sent while a round runs, messages", f"{float(result.round_messages):g}"),
        ("alpha from which the first round binds", f"{float(result.alpha_crossover):.3f}"),
    ]


def _sentences(result: model.Trigger, messages: int | None, rounds: int | None) -> list[str]:
    sentences = [
        f"Start a round when {result.messages} messages wait: {_BINDING_WORDS[result.binding]}.",
        "Rounds then release as much as is sent meanwhile: senders need never stop."
        if result.sustainable
        else "Rounds release less than is sent meanwhile: two in a row are safe, then what is "
        "left over grows until senders stop. Raise the buffer or alpha, or lower rate or rtt.",
    ]
    if messages is not None:
        sentences.append(
            "Nothing becomes stable with alpha 0, however many rounds run."
            if rounds is None
            else f"{messages} messages take {rounds} rounds."
        )
    return sentences
