"""The process behind a sink: batches in an outbox in, one member's messages out.

Started by the first batch (`sink`), stays a member until none has come for `linger_s`, and takes
and forgets what others send meanwhile. Options come pickled on stdin; how it went is in the outbox.
"""

import contextlib
import pickle
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from semcast.errors import GroupClosedError, InputError, SemcastError

if TYPE_CHECKING:
    from semcast.live.blocking import Group
    from semcast.pipeline.streaming.options import SinkOptions
    from semcast.pipeline.streaming.outbox import Outbox

_CHUNK_MESSAGES: Final = 1024
_PATIENCE_S: Final = 0.005
_TELL_S: Final = 1.0


def main() -> int:
    """Send until there is nothing more to send."""
    from semcast.pipeline.streaming.sink import outbox_of

    options: SinkOptions = pickle.load(sys.stdin.buffer)
    outbox = outbox_of(options)
    try:
        lock = outbox.lock()
    except InputError:
        return 0  # another one was faster
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        _serve(options, outbox)
    except (SemcastError, OSError, ValueError) as error:
        outbox.note_failure(f"{type(error).__name__}: {error}")
        return 1
    finally:
        lock.close()
    return 0


def _serve(options: "SinkOptions", outbox: "Outbox") -> None:
    import semcast.blocking

    config = options.config
    with semcast.blocking.join(config.group, config=config, deliver_own=False) as group:
        threading.Thread(target=_discard, args=(group,), daemon=True).start()
        last_s = time.monotonic()
        while time.monotonic() - last_s < options.linger_s:
            for batch_id in outbox.waiting():
                _send(group, outbox, batch_id)
                last_s = time.monotonic()
            time.sleep(_PATIENCE_S)


def _send(group: "Group", outbox: "Outbox", batch_id: int) -> None:
    """Send one batch, and wait until everybody has it."""
    for batch in outbox.take(batch_id).to_batches(_CHUNK_MESSAGES):
        keys = [key or None for key in batch.column("key").to_pylist()]
        group.send_many(batch.column("payload").to_pylist(), keys)
    while True:
        # A member that is away holds this up as it holds up every sender; leaving is heard.
        with contextlib.suppress(TimeoutError):
            group.drain(_TELL_S)
            break
    outbox.note_sent(batch_id)


def _discard(group: "Group") -> None:
    """Take what others send, so that they do not wait for this member."""
    with contextlib.suppress(GroupClosedError):
        while True:
            group.receive_many()


if __name__ == "__main__":
    sys.exit(main())
