"""A fuzzer for notes: hellos, questions and answers, guided by coverage: `make fuzz`.

    PYTHONPATH=src python -m tests.fuzz_notes -max_total_time=60

The bytes decide what is changed in genuine notes, or are a note themselves. A session that takes it
may refuse it (RemoteProtocolError, counted) or deal with it; what comes out of it otherwise is a
crash, as is memory or traffic beyond the bounds in `tests/live/notes.py`. libFuzzer then writes the
bytes to build/fuzz-notes/crash-…, and giving that file as the argument replays it. What is learnt
is kept in build/fuzz-notes/corpus. Not collected by pytest.
"""

import json
import sys
from pathlib import Path

from tests.fuzz_wire import atheris_or_exit

ATHERIS = atheris_or_exit()
with ATHERIS.instrument_imports(include=["semcast", "tests.live.notes"]):
    from tests.live.notes import FromBytes, Victim, drawn, drawn_answer, gather, genuine, hearing

    from semcast.ids import Source
    from semcast.live.meeting.roster import member_id
    from semcast.wire import seal

OUT = Path(__file__).parent.parent / "build" / "fuzz-notes"
NOTES_MAX = 8


def one_input(data: bytes) -> None:
    """The first byte says to whom it goes, and whether as a note or as what decides about notes."""
    if not data:
        return
    how, rest = data[0], data[1:]
    if how & 1:
        note = rest[:60_000]
        Victim(bool(how & 2), bool(how & 4)).take(note, Source(member_id("b"), 2))
        gather(note, hearing())
        return
    draw = FromBytes(rest)
    if how & 8:
        heard = hearing()
        for note in drawn_answer(draw):
            gather(note, heard)
        return
    victim = Victim(bool(how & 2), bool(how & 4), named=bool(how & 16))
    for _ in range(1 + draw.randrange(NOTES_MAX)):
        victim.take(*drawn(draw), proved=bool(how & 32))


def write_seeds(corpus: Path) -> None:
    """Every genuine note by itself, and some bytes that decide."""
    corpus.mkdir(parents=True, exist_ok=True)
    for at, note in enumerate(genuine()):
        for how in (1, 5, 7):
            (corpus / f"note_{at}_{how}").write_bytes(bytes([how]) + json.dumps(note).encode())
    for how in range(0, 32, 2):
        (corpus / f"draws_{how}").write_bytes(bytes([how]) + bytes(range(1, 64)))


def main() -> None:
    if not str(seal.__file__).endswith(".py"):
        sys.exit("fuzz_notes: this semcast is compiled and cannot be traced; set PYTHONPATH=src")
    corpus = OUT / "corpus"
    write_seeds(corpus)
    arguments = [f"-artifact_prefix={OUT}/", "-max_len=2048", *sys.argv[1:]]
    if all(argument.startswith("-") for argument in sys.argv[1:]):
        arguments.append(str(corpus))
    ATHERIS.Setup([sys.argv[0], *arguments], one_input)
    ATHERIS.Fuzz()


if __name__ == "__main__":
    main()
