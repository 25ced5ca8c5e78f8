"""`semcast model purge`: traffic, buffer and rates in; what purging can do for them out."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from semcast.cli._output import (
    JsonOption,
    null_if_unlimited,
    print_json,
    print_table,
    print_words,
)
from semcast.errors import InputError
from semcast.model import purge as model


def purge(
    r: Annotated[
        float | None,
        typer.Option("--r", help="Share of messages that replace an earlier one, 0 to 1."),
    ] = None,
    d: Annotated[
        float | None,
        typer.Option("--d", help="With --r: chains they are spread over, from 1 [default: 1]."),
    ] = None,
    pmf: Annotated[
        Path | None,
        typer.Option(
            "--pmf",
            help="File with the distribution of distances: lines of distance,probability, "
            'or JSON such as {"0": 0.5, "3": 0.5}; distance 0 replaces nothing.',
        ),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option("--classes", help="Classes of keys as keys:share,... with shares up to 1."),
    ] = None,
    buffer: Annotated[
        int, typer.Option("--buffer", help="Messages that the slow receiver's buffer holds.")
    ] = 64,
    k: Annotated[
        int | None,
        typer.Option(
            "--k", help="Bits of a bitmap: the longest distance it can name. Default: by key."
        ),
    ] = None,
    sender_rate: Annotated[
        float | None, typer.Option("--sender-rate", help="What the sender wants, in msg/s.")
    ] = None,
    receiver_rate: Annotated[
        float | None, typer.Option("--receiver-rate", help="What the receiver can do, in msg/s.")
    ] = None,
    want_sender_rate: Annotated[
        float | None,
        typer.Option(
            "--want-sender-rate",
            help="Find the smallest buffer and k that carry this rate, in msg/s, "
            "past --receiver-rate.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """How slow may a receiver be before the sender notices, and what buffer does it take?

    Say what the traffic is like by --r and --d, by --classes or by --pmf.

    \b
    Examples:
      semcast model purge --r 0.5 --d 5 --buffer 20 --sender-rate 100 --receiver-rate 40
      semcast model purge --classes 25:0.5,100:0.4,750:0.1 --buffer 30
      semcast model purge --r 0.5 --d 5 --receiver-rate 40 --want-sender-rate 70
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    traffic = _traffic(r, d, pmf, classes)
    ratio = model.purge_ratio(traffic, buffer, k)
    slowest = None if sender_rate is None else model.tolerance(ratio, sender_rate)
    flow = None
    if sender_rate is not None and receiver_rate is not None:
        flow = model.throughput(ratio, sender_rate, receiver_rate)
    plan = _plan(traffic, sender_rate, receiver_rate, want_sender_rate)
    report = _Report(buffer, k, traffic.limit, ratio, sender_rate, slowest, flow)
    if as_json:
        print_json(report.as_json() | _plan_as_json(want_sender_rate, plan))
    else:
        print_table("Purging", ["", "value"], report.rows())
        print_words(*report.sentences(), *_plan_sentences(want_sender_rate, plan))


def parse_classes(text: str) -> list[tuple[int, float]]:
    """Read 25:0.5,100:0.4 as classes of keys and their shares of the traffic."""
    classes = []
    for part in text.split(","):
        keys, _, share = part.partition(":")
        try:
            classes.append((int(keys), float(share)))
        except ValueError:
            raise InputError(
                f"--classes has {part!r}; write keys:share, as in 25:0.5,100:0.4,750:0.1"
            ) from None
    return classes


def _traffic(
    r: float | None, d: float | None, pmf: Path | None, classes: str | None
) -> model.DistancePmf:
    from semcast.cli._pmf import read_pmf

    if d is not None and r is None:
        raise InputError("--d goes with --r; leave it out or give --r too")
    if sum(given is not None for given in (r, pmf, classes)) != 1:
        raise InputError("say what the traffic is like by exactly one of --r, --pmf and --classes")
    if r is not None:
        return model.f_rd(r, 1 if d is None else d)
    if pmf is not None:
        return read_pmf(pmf)
    assert classes is not None
    return model.from_classes(parse_classes(classes))


@dataclass(frozen=True)
class _Report:
    """What follows from the options; the parts that need rates are None without them."""

    buffer: int
    k: int | None  # None: by key
    limit: float
    ratio: float
    sender_rate: float | None
    slowest: model.Tolerance | None
    flow: model.Throughput | None

    @property
    def slowdown_percent(self) -> float:
        return model.tolerated_slowdown_percent(self.ratio)

    @property
    def disturbed(self) -> bool | None:
        if self.flow is None or self.sender_rate is None:
            return None
        return self.flow.sender_rate_msg_s < self.sender_rate

    def as_json(self) -> dict[str, object]:
        slowest, flow = self.slowest, self.flow
        delay_ms = slowest and null_if_unlimited(slowest.receiver_delay_max_ms)
        return {
            "buffer_messages": self.buffer,
            "k": self.k,
            "limited_by": "buffer" if self.k is None or self.k >= self.buffer else "k",
            "purge_ratio_limit": self.limit,
            "purge_ratio": self.ratio,
            "tolerated_slowdown_percent": null_if_unlimited(self.slowdown_percent),
            "tolerated_slowdown_unlimited": math.isinf(self.slowdown_percent),
            "receiver_rate_min_msg_s": slowest and slowest.receiver_rate_min_msg_s,
            "receiver_delay_max_ms": delay_ms,
            "sender_rate_msg_s": flow and flow.sender_rate_msg_s,
            "slow_receiver_rate_msg_s": flow and flow.slow_receiver_rate_msg_s,
            "sender_disturbed": self.disturbed,
        }

    def rows(self) -> list[tuple[str, str]]:
        rows = [
            ("can be purged with any buffer (R*)", f"{self.limit:.3f}"),
            ("can be purged with this one (R)", f"{self.ratio:.3f}"),
            ("slowdown tolerated, %", _or_unlimited(self.slowdown_percent)),
        ]
        if self.slowest is not None:
            rate, delay = self.slowest.receiver_rate_min_msg_s, self.slowest.receiver_delay_max_ms
            rows.append(("slowest receiver tolerated, msg/s", f"{rate:.1f}"))
            rows.append(("longest delay for a message tolerated, ms", _or_unlimited(delay)))
        if self.flow is not None:
            rows.append(("sender gets (T), msg/s", f"{self.flow.sender_rate_msg_s:.1f}"))
            rows.append(
                ("slow receiver gets (T'), msg/s", f"{self.flow.slow_receiver_rate_msg_s:.1f}")
            )
        return rows

    def sentences(self) -> list[str]:
        sentences = []
        if self.k is not None and self.k < self.buffer:
            sentences.append(
                f"k limits: the buffer holds {self.buffer} messages, but the bitmap tells of "
                f"replacements at most {self.k} messages apart."
            )
        if math.isinf(self.slowdown_percent):
            sentences.append("Every message makes room for itself: no receiver is too slow.")
        else:
            sentences.append(
                f"Under lasting congestion {100 * self.ratio:.1f}% of the messages can be purged, "
                f"so a receiver may take {self.slowdown_percent:.1f}% longer for a message than "
                "the sender's interval before the sender notices."
            )
        if self.flow is not None and self.sender_rate is not None:
            got = self.flow.sender_rate_msg_s
            sentences.append(
                f"The sender is held back to {got:.6g} of {self.sender_rate:g} msg/s."
                if self.disturbed
                else "The sender is not disturbed by this receiver."
            )
        return sentences


def _plan(
    traffic: model.DistancePmf,
    sender_rate: float | None,
    receiver_rate: float | None,
    want: float | None,
) -> model.BufferPlan | None:
    if want is None:
        return None
    if receiver_rate is None:
        raise InputError("--want-sender-rate needs --receiver-rate, the rate to get past")
    if sender_rate is not None and want > sender_rate:
        raise InputError(
            f"--want-sender-rate is {want:g} msg/s but --sender-rate only {sender_rate:g}; "
            "no buffer makes a sender faster"
        )
    return model.smallest_buffer(traffic, want, receiver_rate)


def _plan_as_json(want: float | None, plan: model.BufferPlan | None) -> dict[str, object]:
    return {
        "want_sender_rate_msg_s": want,
        "feasible": plan and plan.feasible,
        "purge_ratio_needed": plan and plan.ratio_needed,
        "buffer_min_messages": plan and plan.buffer_min_messages,
        "k_min": plan and plan.k_min,
        "sender_rate_bound_msg_s": plan and null_if_unlimited(plan.sender_rate_bound_msg_s),
    }


def _plan_sentences(want: float | None, plan: model.BufferPlan | None) -> list[str]:
    if plan is None:
        return []
    if not plan.feasible:
        return [
            f"No buffer carries {want:g} msg/s past this receiver: {plan.ratio_needed:.3f} of the "
            f"messages would have to be purged and R* is {plan.ratio_limit:.3f}; however large, "
            f"a buffer carries no more than {plan.sender_rate_bound_msg_s:.1f} msg/s."
        ]
    return [
        f"To carry {want:g} msg/s past this receiver, {plan.ratio_needed:.3f} of the messages "
        f"must be purged: that takes a buffer of at least {plan.buffer_min_messages}, and with a "
        f"bitmap k of at least {plan.k_min}."
    ]


def _or_unlimited(value: float) -> str:
    return "unlimited" if math.isinf(value) else f"{value:.1f}"
