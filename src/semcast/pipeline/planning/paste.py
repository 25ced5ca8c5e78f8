"""A plan in, the `GroupConfig` to paste out, as Python text."""

from typing import Final

from semcast.live.config import GroupConfig

# Between two rounds of stability detection a window holds all that is sent; nothing is gained by
# less room than this, whatever the slow receiver's buffer is.
WINDOW_MIN: Final = 1024
_BYTES_DEFAULT: Final = GroupConfig(group="any", size=1, insecure=True).delivery_bytes


def group_config(group: str, buffer_messages: int, k: int | None, size_bytes_max: int) -> str:
    """The settings that the plan is about; all others have their defaults."""
    window = max(buffer_messages, WINDOW_MIN)
    needed = max(buffer_messages, window) * max(size_bytes_max, 1)
    lines = [
        f"    group={group!r},",
        "    size=2,  # how many members: yours",
        '    secret=os.environ["SEMCAST_SECRET"],  # semcast keys new',
        *([] if k is None else ['    replacement="bitmap",', f"    k={k},"]),
        f"    delivery_messages={buffer_messages},",
        f"    window_messages={window},",
    ]
    if needed > _BYTES_DEFAULT:
        lines += [f"    delivery_bytes={needed},", f"    window_bytes={needed},"]
    return "\n".join(["GroupConfig(", *lines, ")"])
