"""The program `semcast`: one line where the library was installed without its command line."""

import sys
from importlib.util import find_spec


def main() -> int:
    """Run the command line; the exit code comes out."""
    missing = [name for name in ("numpy", "rich", "typer") if find_spec(name) is None]
    if missing:
        print(
            f"semcast: the command line needs {', '.join(missing)}, which is not installed; "
            "pip install 'semcast[cli]'",
            file=sys.stderr,
        )
        return 2
    from semcast.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
