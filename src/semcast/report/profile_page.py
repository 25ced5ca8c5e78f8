"""A traffic profile in, one HTML page out: its tables and plots, with nothing to fetch."""

from collections.abc import Sequence
from typing import Final

from semcast.pipeline.profiling.summary import Histogram, TrafficProfile
from semcast.report.figures import Line, Plot
from semcast.report.page import Tables, page

# A drawing of more points than this shows no more than one of these.
_POINTS_MAX: Final = 2000


def profile_page(profile: TrafficProfile, tables: Tables) -> str:
    """The page. `tables` are the ones that the command prints: title, columns, rows of text."""
    return page(f"Traffic of {profile.name}", tables, plots(profile))


def plots(profile: TrafficProfile) -> list[Plot]:
    """All plots for which there is something to draw."""
    sense = "in the sender's own sequence" if profile.per_sender else "in the whole stream"
    found = []
    if profile.distances.total:
        found += _distance_plots(profile, sense)
    if profile.ranks:
        x, y = zip(*_thinned(profile.ranks), strict=True)
        found.append(
            Plot(
                "keys", "Messages of a key, by rank", "rank of the key", "messages",
                [Line("keys", x, y, "steps")], log_x=True, log_y=True,
            )
        )  # fmt: skip
    if profile.spans:
        times = [span.time_s - profile.spans[0].time_s for span in profile.spans]
        found.append(
            Plot(
                "rate", f"Rate over time (windows of {profile.window_s:g} s)",
                "time from the first message, s", "messages/s",
                [
                    Line("busiest window", times, [span.peak_msg_s for span in profile.spans]),
                    Line("mean", times, [span.rate_msg_s for span in profile.spans]),
                ],
            )
        )  # fmt: skip
    if profile.sizes.total:
        found.append(
            Plot(
                "sizes", "Sizes", "bytes", "share of messages up to this size",
                [Line("cdf", *_cdf(profile.sizes, profile.sizes.total), "steps")],
            )
        )  # fmt: skip
    return found


def _distance_plots(profile: TrafficProfile, sense: str) -> list[Plot]:
    points = _thinned(sorted(profile.distances.counts.items()))
    x = [distance for distance, _ in points]
    share = [count / profile.messages for _, count in points]
    label = f"distance D to the replaced message, {sense}"
    return [
        Plot(
            "pmf", "How far back is what a message replaces?", label, "share of messages",
            [Line("pmf", x, share, "points" if len(x) > 100 else "bars")], log_x=True,
        ),
        Plot(
            "cdf", "Messages that a buffer of so many can purge, at most", label,
            "share of messages", [Line("cdf", *_cdf(profile.distances, profile.messages), "steps")],
            log_x=True,
        ),
    ]  # fmt: skip


def _cdf(histogram: Histogram, total: int) -> tuple[list[float], list[float]]:
    """How large a share of `total` is not above x, for each x."""
    points, seen = [], 0
    for x, n in sorted(histogram.counts.items()):
        seen += n
        points.append((x, seen / total))
    points = _thinned(points)
    return [x for x, _ in points], [share for _, share in points]


def _thinned(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most so many of them as can be told apart: the ends, and most where x is small."""
    if len(points) <= _POINTS_MAX:
        return list(points)
    ratio = len(points) ** (1 / _POINTS_MAX)
    places = {min(int(ratio**at), len(points)) - 1 for at in range(_POINTS_MAX + 1)}
    return [points[at] for at in sorted(places | {len(points) - 1})]
