"""The peers' own virtual environment, `.venv-peers`: made and filled here, never touching .venv.

It sees the packages of the environment that runs the benchmark behind its own, by a path file, so
the semcast that is measured is the one installed there, compiled, in the same interpreter.
"""

import json
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.peers.api import Peer

ROOT = Path(__file__).resolve().parent.parent.parent
VENV = ROOT / ".venv-peers"
PYTHON = VENV / "bin" / "python"
CONSTRAINTS = Path(__file__).resolve().parent / "constraints.txt"
_PATH_FILE = "semcast-under-test.pth"
_INSTALL_S_MAX = 600
_REASON_MAX = 160
_VERSIONS = """
import importlib.metadata as m, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = m.version(name)
    except m.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def pinned() -> dict[str, str]:
    """The versions that are measured, from constraints.txt."""
    lines = CONSTRAINTS.read_text().split()
    return dict(line.split("==") for line in lines)


def prepare(peers: Iterable[Peer], say: Callable[[str], None]) -> dict[str, str]:
    """Make the environment and install; gives for each peer that cannot be, the reason."""
    if not _usable():
        say("making .venv-peers ...")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    wanted = pinned()
    # While pip works, it must see its own environment only, lest it touches the other.
    _path_file().unlink(missing_ok=True)
    have = versions(wanted)
    reasons: dict[str, str] = {}
    for peer in peers:
        missing = [name for name in peer.packages if have.get(name) != wanted[name]]
        if missing:
            say(f"installing {', '.join(missing)} ...")
            reason = _install(missing)
            if reason:
                reasons[peer.name] = reason
    share_packages()
    return reasons


def versions(names: Iterable[str]) -> dict[str, str]:
    """What is installed of these, with versions."""
    done = subprocess.run(
        [PYTHON, "-c", _VERSIONS, *names], capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def semcast_build() -> str:
    """Whether the semcast that is measured is compiled, interpreted or missing."""
    text = "import semcast.protocol.member as m; print(m.__file__)"
    done = subprocess.run([str(PYTHON), "-c", text], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return "missing"
    return "interpreted" if done.stdout.strip().endswith(".py") else "compiled"


def _usable() -> bool:
    """Whether the environment is there and has the interpreter that runs now."""
    if not PYTHON.exists():
        return False
    command = [str(PYTHON), "-c", "import sys; print(sys.version)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == sys.version.strip()


def share_packages() -> None:
    """Put this environment's packages behind those of .venv-peers."""
    folders = dict.fromkeys(sysconfig.get_paths()[kind] for kind in ("purelib", "platlib"))
    _path_file().write_text("\n".join(folders) + "\n")


def _path_file() -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return VENV / "lib" / version / "site-packages" / _PATH_FILE


def _install(packages: list[str]) -> str:
    """Install; the reason why not, or an empty string."""
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    try:
        done = subprocess.run(
            [*pip, "-c", str(ROOT / "constraints.txt"), "-c", str(CONSTRAINTS), *packages],
            capture_output=True,
            text=True,
            check=False,
            timeout=_INSTALL_S_MAX,
        )
    except subprocess.TimeoutExpired:
        return f"not installed: pip took more than {_INSTALL_S_MAX} s"
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stderr.splitlines() if line.strip()] or ["pip said nothing"]
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    return f"not installed: {errors[-1].removeprefix('ERROR: ')}"[:_REASON_MAX]
