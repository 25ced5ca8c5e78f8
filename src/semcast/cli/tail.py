"""`semcast tail`: a group in; its messages out, as they come."""

import base64
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semcast.cli._group import Target, group_command

if TYPE_CHECKING:
    from semcast.wire.message import Message


@group_command()
def tail(
    target: Target,
    count: Annotated[
        int, typer.Option("--count", min=0, help="Leave after so many messages; 0: never.")
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on each line.")
    ] = False,
) -> int:
    """Join a group as a reader and print its messages, until Ctrl-C.

    What stands is printed first, then what is new. If the group is closed (--members or --size at
    the others), say the same here; then this is a member that counts. A message that is replaced
    before it could be printed is not printed; "skipped" has its number. Of a federation, say with
    --groups which groups this site is to be in.

    \b
    Example:
      semcast tail quotes --secret-file secret.txt
      semcast tail quotes --secret-file secret.txt --json --count 10
      semcast tail bank --secret-file secret.txt --groups accounts,releases
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    seen = 0
    with target.attended() as group:
        for message in group:
            print(json.dumps(_object(message)) if as_json else _line(message), flush=True)
            seen += 1
            if seen == count:
                break
    return 0


def _object(message: "Message") -> dict[str, Any]:
    from semcast.journal.names import keys_text

    text, encoded = _payload(message.payload)
    found = {"group": message.group} if message.group else {}
    return found | {
        "sender": message.sender,
        "seq": message.seq,
        "key": keys_text(message.keys),
        "payload": text,
        "payload_base64": encoded,
        "sent_ns": message.sent_ns,
        "skipped": list(message.skipped),
        "state": message.state,
    }


def _line(message: "Message") -> str:
    from semcast.journal.names import keys_text

    text, encoded = _payload(message.payload)
    about = f" {keys_text(message.keys)}" if message.keys else ""
    missed = f" (after {len(message.skipped)} skipped)" if message.skipped else ""
    to = f"{message.group} " if message.group else ""
    return f"{to}{message.sender} {message.seq}{about}{missed}: {encoded if text is None else text}"


def _payload(payload: bytes) -> tuple[str | None, str | None]:
    """As text if it is that, and prints on one line; else in base64."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None, base64.b64encode(payload).decode()
    if not text.isprintable():
        return None, base64.b64encode(payload).decode()
    return text, None
