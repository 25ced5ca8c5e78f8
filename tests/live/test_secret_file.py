"""A secret that others can read is warned of, once, with what to do; one that is made is ours."""

import json
import logging
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from semcast.cli import main
from semcast.errors import InputError
from semcast.live.config import from_environment
from semcast.live.secret_file import read_secret, write_secret

SECRET = "a secret of these tests, long enough"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")


def file_of(folder: Path, mode: int, text: str = SECRET + "\n") -> Path:
    path = folder / "secret of ours.txt"
    path.write_text(text)
    path.chmod(mode)
    return path


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


@pytest.mark.parametrize(
    ("mode", "who"),
    [(0o640, "its group"), (0o604, "everybody"), (0o644, "its group and everybody")],
)
def test_a_file_that_others_can_read_is_warned_of_once_with_what_to_do(
    mode: int, who: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = file_of(tmp_path, mode)
    assert [read_secret(path) for _ in range(3)] == [SECRET] * 3
    assert warnings(caplog) == [
        f"{path} holds a secret and {who} can read it; do: chmod 600 '{path}'"
    ]
    assert caplog.records[0].semcast["kind"] == "secret_readable"  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700, 0o620])
def test_a_file_that_only_its_owner_can_read_is_not(
    mode: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert read_secret(file_of(tmp_path, mode)) == SECRET
    assert warnings(caplog) == []


def test_a_pipe_is_not_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o644)
    pipe.chmod(0o644)
    threading.Thread(target=lambda: pipe.write_text(SECRET)).start()
    assert read_secret(pipe) == SECRET
    assert warnings(caplog) == []


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="there is no /dev/stdin")
def test_what_a_shell_redirects_is_not_warned_of(tmp_path: Path) -> None:
    """It is a file, but not one that was given to us by name."""
    code = "from pathlib import Path; from semcast.live.secret_file import read_secret as r; "
    code += "print(r(Path('/dev/stdin')))"
    with file_of(tmp_path, 0o644).open() as file:
        done = subprocess.run(
            [sys.executable, "-c", code], stdin=file, capture_output=True, text=True, check=True
        )
    assert (done.stdout.strip(), done.stderr) == (SECRET, "")


def test_a_configuration_with_a_secret_is_warned_of_and_one_without_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = file_of(tmp_path, 0o644, "size = 2\n")
    from_environment({"group": "g", "insecure": True}, {"SEMCAST_CONFIG": str(path)})
    assert warnings(caplog) == []
    path.write_text(f'size = 2\nsecret = "{SECRET}"\n')
    for _ in range(2):
        from_environment({"group": "g"}, {"SEMCAST_CONFIG": str(path)})
    (text,) = warnings(caplog)
    assert "chmod 600" in text
    assert SECRET not in text


def test_a_new_secret_goes_to_a_file_of_its_owner_and_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new.txt"
    before = os.umask(0)
    try:
        assert main(["keys", "new", str(path)]) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = read_secret(path)
    assert len(text) >= 43
    assert text not in capsys.readouterr().out
    other = tmp_path / "other.txt"
    assert main(["keys", "new", str(other), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"file", "fingerprint"}
    assert read_secret(other) != text


def test_a_file_that_is_there_is_never_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file_of(tmp_path, 0o600)
    assert main(["keys", "new", str(path)]) != 0
    assert "is there already" in capsys.readouterr().err
    assert path.read_text() == SECRET + "\n"
    with pytest.raises(InputError, match="cannot write the secret"):
        write_secret(tmp_path / "no" / "such" / "folder", SECRET)


@pytest.mark.parametrize(
    ("content", "text"), [(b" \n", "is empty"), (b"\xff\xfe" * 20, "is not text")]
)
def test_a_file_without_a_secret_is_named(content: bytes, text: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(content)
    with pytest.raises(InputError, match=text):
        read_secret(path)
    with pytest.raises(InputError, match="cannot read the secret"):
        read_secret(tmp_path)
