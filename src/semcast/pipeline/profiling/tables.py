"""A profile in; the tables that people read, and the object that programs read, out."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from semcast.obsolescence import K_MAX
from semcast.pipeline.profiling.summary import Counted, Histogram, TrafficProfile

Table: TypeAlias = tuple[str, Sequence[str], Sequence[Sequence[str]]]
WITHIN: Final = (1, 4, 16, 32, 64, 128, 256, 1024, 4096, 16384, 65536)
# Longer distances are too many to list; --pmf-out has them all.
_PMF_MAX: Final = 1024


def tables(profile: TrafficProfile) -> list[Table]:
    """Title, columns and rows of each table, as text."""
    return [
        _overview(profile),
        _within(profile),
        _quantiles(profile),
        _most("Keys with most messages", "key", profile.top_keys, profile.messages),
        _most("Senders with most messages", "sender", profile.top_senders, profile.messages),
    ]


def _overview(profile: TrafficProfile) -> Table:
    sense = "per sender" if profile.per_sender else "in the whole stream"
    rows = [
        ("messages", f"{profile.messages:,}"),
        ("never replaced", f"{profile.never_replaced_share:.2%}"),
        ("without a key", f"{profile.unkeyed / profile.messages:.2%}"),
        ("distances", sense),
        ("senders", f"{profile.senders:,}"),
        ("keys", f"{profile.keys_with.total:,}"),
        ("Gini coefficient of keys", _number(profile.gini())),
        ("Zipf exponent of keys", _number(profile.zipf_exponent())),
    ]
    if profile.duration_s is not None:
        rows += [
            ("duration", f"{profile.duration_s:,.2f} s"),
            ("mean rate", f"{_number(profile.mean_rate_msg_s)} msg/s"),
            ("index of dispersion", _number(profile.windows_with.dispersion())),
        ]
    rows += [(f"bad rows: {reason}", f"{n:,}") for reason, n in profile.rejected.items()]
    return f"{profile.name}: {profile.messages:,} messages", ["figure", "value"], rows


def _within(profile: TrafficProfile) -> Table:
    rows = [
        (
            f"{x:,}",
            f"{profile.share_within(x):.1%}",
            f"{profile.share_within(x):.1%}" if x <= K_MAX else "–",
        )
        for x in WITHIN
    ]
    columns = ["N", "by key, buffer of N messages", "with a bitmap of N bits"]
    return "What can be purged at most", columns, rows


def _quantiles(profile: TrafficProfile) -> Table:
    rows = [
        _spread(name, histogram)
        for name, histogram in (
            ("distance, messages", profile.distances),
            (f"messages in {profile.window_s:g} s", profile.windows_with),
            ("size, bytes", profile.sizes),
            ("messages of a key", profile.keys_with),
        )
        if histogram.total
    ]
    return "How much they differ", ["", "mean", "p50", "p90", "p99", "max"], rows


def _spread(name: str, histogram: Histogram) -> Sequence[str]:
    quantiles = (f"{histogram.quantile(share):,.0f}" for share in (0.5, 0.9, 0.99))
    return (name, f"{histogram.mean:,.1f}", *quantiles, f"{histogram.largest:,}")


def _most(title: str, what: str, most: Sequence[Counted], messages: int) -> Table:
    rows = [(one.name, f"{one.messages:,}", f"{one.messages / messages:.2%}") for one in most]
    return title, [what, "messages", "share"], rows


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.3f}"


# -- for programs ----------------------------------------------------------------------------------


def as_json(profile: TrafficProfile) -> dict[str, object]:
    """One object with stable keys. Shares are rounded to what their counts, beside them, allow."""
    return {
        "trace": profile.name,
        "messages": profile.messages,
        "sense": "per_sender" if profile.per_sender else "one_stream",
        "never_replaced": profile.never_replaced,
        "never_replaced_share": round(profile.never_replaced_share, 4),
        "unkeyed": profile.unkeyed,
        "purge_ratio_limit": round(1 - profile.never_replaced_share, 6),
        "share_replacing_within": {str(x): round(profile.share_within(x), 6) for x in WITHIN},
        "distance_messages": _figures(profile.distances),
        "pmf": {str(x): p for x, p in profile.pmf.items() if x <= _PMF_MAX},
        "cdf": _powers(profile),
        "keys": _skew(profile),
        "senders": {"count": profile.senders, "top": _counted(profile.top_senders)},
        "rate": _rate(profile),
        "size_bytes": _figures(profile.sizes) | {"total": profile.bytes_total},
        "rejected_rows": sum(profile.rejected.values()),
        "rejected_by_reason": dict(profile.rejected),
        "times_back_rows": profile.times_back,
        "replaces_by_number": profile.by_number,
    }


def _figures(histogram: Histogram) -> dict[str, object]:
    """The figures of a histogram; null where nothing was seen, since 0 would be a figure."""
    if not histogram.total:
        return dict.fromkeys(("mean", "p50", "p90", "p99", "max"))
    quantiles = {f"p{share:g}": round(histogram.quantile(share / 100)) for share in (50, 90, 99)}
    return {"mean": round(histogram.mean, 3), **quantiles, "max": histogram.largest}


def _powers(profile: TrafficProfile) -> dict[str, float]:
    """The share of messages that replace one at most so far back, by powers of two."""
    largest = profile.distances.largest
    return {
        str(1 << bits): round(profile.share_within(1 << bits), 6)
        for bits in range(max(largest - 1, 0).bit_length() + 1)
    }


def _skew(profile: TrafficProfile) -> dict[str, object]:
    return {
        "count": profile.keys_with.total,
        "gini": _rounded(profile.gini()),
        "zipf_exponent": _rounded(profile.zipf_exponent()),
        "messages_of_a_key": _figures(profile.keys_with),
        "top": _counted(profile.top_keys),
    }


def _counted(most: Sequence[Counted]) -> list[dict[str, object]]:
    return [{"name": one.name, "messages": one.messages} for one in most]


def _rate(profile: TrafficProfile) -> dict[str, object]:
    return {
        "duration_s": profile.duration_s,
        "mean_msg_s": _rounded(profile.mean_rate_msg_s),
        "window_s": profile.window_s,
        "messages_in_a_window": _figures(profile.windows_with),
        "index_of_dispersion": _rounded(profile.windows_with.dispersion()),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
