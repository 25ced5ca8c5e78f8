"""The examples in docstrings do what they say, and everything that applications call has one.

They are read from the source, because compiled functions have no docstrings, and run as typed into
`python -m asyncio`, where one may await, on the package as it is built.
"""

import ast
import asyncio
import contextlib
import doctest
import importlib
import inspect
import io
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import semcast
import semcast.blocking

PACKAGE = Path(semcast.__file__).parent
SETTINGS: dict[str, Any] = {
    "name": "a",
    "secret": "sixteen bytes or more",
    "size": 1,
    "transport": "unicast",
    "host": "127.0.0.1",
}
SITE = {name: value for name, value in SETTINGS.items() if name != "size"}
SITE["groups"] = ("alpha", "beta")
FACES = ("semcast.live.aio", "semcast.live.blocking")
SITES = ("semcast.live.aio_site", "semcast.live.blocking_site")
CLASSES = [f"{face}.{kind}" for face in FACES for kind in ("Group", "Recipient")]
CLASSES += ["semcast.live.group.BaseGroup", "semcast.live.site.SiteFace"]
CLASSES += [f"{face}.Site" for face in SITES]
DEADLINE_S = 90.0

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def documented(node: Documented, name: str) -> Iterator[tuple[str, str]]:
    """Names below this one, with their docstrings."""
    yield name, ast.get_docstring(node) or ""
    for part in node.body:
        if isinstance(part, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from documented(part, f"{name}.{part.name}")


def docstrings() -> Iterator[tuple[str, str, str]]:
    """Module, full name and docstring of everything in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        for name, text in documented(ast.parse(path.read_text(encoding="utf-8")), module):
            yield module, name, text


DOCSTRINGS = {name: (module, text) for module, name, text in docstrings()}
PARSER = doctest.DocTestParser()
EXAMPLES = {
    name: (module, found)
    for name, (module, text) in DOCSTRINGS.items()
    if (found := PARSER.get_examples(text, name))
}


def for_applications() -> list[str]:
    """What must have an example: all that a group can do, how to join one, and what comes of it."""
    wanted = ["semcast.live.config.GroupConfig", "semcast.wire.message.Message"]
    wanted += [f"{face}.join" for face in FACES] + [f"{face}.federate" for face in SITES]
    for name in DOCSTRINGS:
        owner, _, own = name.rpartition(".")
        if owner in CLASSES and (not own.startswith("_") or own in ("__iter__", "__aiter__")):
            wanted.append(name)
    return wanted


def test_everything_that_applications_call_is_looked_for() -> None:
    wanted = for_applications()
    for face, iteration in zip(FACES, ("__aiter__", "__iter__"), strict=True):
        for own in ("send", "send_nowait", "send_many"):
            assert f"{face}.Group.{own}" in wanted
        for own in ("receive", "receive_many", "drain", "events", "leave", iteration):
            assert f"{face}.Recipient.{own}" in wanted
    for face in SITES:
        for own in ("send", "send_nowait", "send_many", "change"):
            assert f"{face}.Site.{own}" in wanted
    for own in ("view", "stats", "keys"):
        assert f"semcast.live.group.BaseGroup.{own}" in wanted


@pytest.mark.parametrize("name", for_applications())
def test_what_applications_call_has_an_example(name: str) -> None:
    assert name in EXAMPLES, f"{name} has no example in its docstring"


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_do_what_they_say(name: str) -> None:
    module, examples = EXAMPLES[name]
    asyncio.run(asyncio.wait_for(run(module, examples), DEADLINE_S))


async def run(module: str, examples: list[doctest.Example]) -> None:
    names = dict(vars(importlib.import_module(module)))
    async with contextlib.AsyncExitStack() as stack:
        if module == "semcast.live.aio_site":
            federated = semcast.federate("federated examples", **SITE)
            names["site"] = await stack.enter_async_context(federated)
        elif any("site." in example.source for example in examples):
            site = semcast.blocking.federate("federated examples", **SITE)
            names["site"] = stack.enter_context(site)
        elif module == "semcast.live.aio":
            names["group"] = await stack.enter_async_context(semcast.join("examples", **SETTINGS))
        elif any("group." in example.source for example in examples):
            group = semcast.blocking.join("examples", **SETTINGS)
            names["group"] = stack.enter_context(group)
        for example in examples:
            got = await typed(example.source, names)
            agrees = doctest.OutputChecker().check_output(example.want, got, 0)
            assert agrees, f"{example.source}\nprinted\n{got}\nand not\n{example.want}"


async def typed(source: str, names: dict[str, Any]) -> str:
    """What is printed when this is typed."""
    code = compile(source, "<example>", "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        result = FunctionType(code, names)()
        if inspect.isawaitable(result):
            await result
    return printed.getvalue()
