"""Compile the hot rooms with mypyc; everything else about the build is in pyproject.toml.

SEMCAST_PURE=1 leaves the compiler out: the same files then run interpreted.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import setup

ROOMS = ("obsolescence", "wire", "protocol", "sim/network")
# The rest of the simulator reads scenarios and counts, and the rest of the live world waits for
# people and networks; only their cores are worth compiling.
FILES = (
    "_native.py",  # with its stub: compiled code is to see native integers
    "ids.py",
    "sim/scheduler.py",
    "sim/faults.py",
    "sim/host.py",
    "sim/epidemic/meter.py",
    "sim/epidemic/nodes.py",
    "sim/stability/fabric.py",
    "sim/stability/reading.py",
)
LIVE = (
    "host/clock.py",
    "host/waker.py",
    "host/timing.py",
    "host/estimates.py",
    "host/waiting.py",
    "host/fair_lock.py",
    "host/deadlines.py",
    "host/seat.py",
    "host/inlets.py",
    "host/followers.py",
    "host/turns.py",
    "host/attendance.py",
    "host/host.py",
    "host/engine.py",
    "meeting/notes.py",
    "meeting/session.py",
    "meeting/places.py",
    "meeting/entrance.py",
    "meeting/open_session.py",
    "meeting/gossip_session.py",
    "meeting/federation_session.py",
    "sockets/datagrams.py",
    "sockets/offload.py",
    "host/portion.py",
    "sockets/multicast.py",
    "sockets/unicast.py",
    "group.py",
    "blocking.py",
)
# These call OpenSSL or only hold names: nothing to gain from compiling them.
LEFT_INTERPRETED = {"__init__.py", "keys.py"}


def compiled_files() -> list[str]:
    package = Path("src/semcast")
    files = [package / name for name in FILES]
    files += [package / "live" / name for name in LIVE]
    for room in ROOMS:
        files += sorted((package / room).rglob("*.py"))
    return [str(path) for path in files if path.name not in LEFT_INTERPRETED]


def require_compiler() -> None:
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not (shutil.which(compiler) or shutil.which("cc") or shutil.which("gcc")):
        sys.exit(
            "semcast: no C compiler found; install one (Debian: apt-get install gcc libc6-dev) "
            "or build without it: SEMCAST_PURE=1"
        )
    if not header.exists():
        sys.exit(
            "semcast: Python.h not found; install the headers (Debian: apt-get install "
            "python3-dev) or build without a compiler: SEMCAST_PURE=1"
        )


if os.environ.get("SEMCAST_PURE", "0") not in ("", "0"):
    setup()
else:
    require_compiler()
    from mypyc.build import mypycify

    extensions = mypycify(compiled_files(), opt_level="3", debug_level="0")
    if sys.platform != "win32":
        for extension in extensions:
            # Nobody replaces our functions at load time, so the compiler may inline them.
            extension.extra_compile_args.append("-fno-semantic-interposition")
    setup(ext_modules=extensions)
