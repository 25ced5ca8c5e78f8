"""The page of a profile: all of it in one file, and nothing of a trace's names becomes HTML."""

import re
from html.parser import HTMLParser

import pytest

from semcast.pipeline.profiling.summary import Counted, Histogram, Span, TrafficProfile
from semcast.pipeline.profiling.tables import tables

pytest.importorskip("matplotlib", reason="plots need the extra semcast[report]")

from semcast.report.profile_page import plots, profile_page

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Outline(HTMLParser):
    """Which elements there are, and whether each is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and not (value or "").startswith("#"):
                self.outside.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.remove(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def made(name: str = "quotes", distances: int = 50) -> TrafficProfile:
    return TrafficProfile(
        name, per_sender=False, window_s=1.0, messages=10 * distances + 7,
        distances=Histogram(dict.fromkeys(range(1, distances + 1), 10), distances),
        keys_with=Histogram({1: 5, 2: 3, 100: 1}, 100),
        windows_with=Histogram({10: 5}, 10), sizes=Histogram({64: 100}, 64),
        senders=2, top_keys=(Counted("<b>key</b>", 100),),
        spans=(Span(5.0, 10.0, 12.0), Span(6.0, 8.0, 9.0)), first_s=5.0, last_s=6.9,
    )  # fmt: skip


def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    found.close()
    assert found.open == []
    return found


def test_one_file_has_the_title_the_tables_and_the_plots_and_fetches_nothing() -> None:
    profile = made()
    page = profile_page(profile, tables(profile))
    found = outline(page)
    assert (found.seen.count("title"), found.seen.count("h1")) == (1, 1)
    assert found.seen.count("table") == len(tables(profile))
    assert found.seen.count("svg") == 5
    assert (found.outside, "@import" in page, "url(http" in page) == ([], False, False)
    assert {"script", "link", "iframe", "image"}.isdisjoint(found.seen)
    ids = re.findall(r'\bid="([^"]+)"', page)
    references = set(re.findall(r'(?:href="|url\()#([^")]+)', page))
    assert references <= set(ids)


def test_names_of_a_trace_are_text() -> None:
    profile = made("<script>alert(1)</script>")
    page = profile_page(profile, tables(profile))
    assert "<script" not in page
    assert "<b>key" not in page
    assert "&lt;script&gt;" in page


def test_the_same_numbers_give_the_same_page() -> None:
    profile = made()
    assert profile_page(profile, tables(profile)) == profile_page(profile, tables(profile))


def test_a_drawing_is_bounded_however_many_distances_there_are() -> None:
    for plot in plots(made(distances=100_000)):
        for line in plot.lines:
            assert 0 < len(line.x) <= 2001
            assert list(line.x) == sorted(line.x)
    cdf = next(plot for plot in plots(made(distances=100_000)) if plot.name == "cdf")
    assert (cdf.lines[0].x[0], cdf.lines[0].x[-1]) == (1, 100_000)


def test_what_is_not_there_is_not_drawn() -> None:
    nothing = Histogram({})
    profile = TrafficProfile(
        "bare", per_sender=True, window_s=1.0, messages=3, distances=nothing, keys_with=nothing,
        windows_with=nothing, sizes=nothing, senders=1,
    )  # fmt: skip
    assert plots(profile) == []
    assert "<svg" not in profile_page(profile, tables(profile))
