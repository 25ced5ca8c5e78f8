"""Two commands at once, for two cores: python tools/together.py "COMMAND" "COMMAND"

The first writes to the terminal; what the second wrote is shown when both are over. Fails if
either does. Ctrl-C reaches both.
"""

import shlex
import subprocess
import sys
import tempfile


def main(first: str, second: str) -> int:
    with tempfile.TemporaryFile("w+") as output:
        beside = subprocess.Popen(shlex.split(second), stdout=output, stderr=subprocess.STDOUT)
        try:
            codes = [subprocess.run(shlex.split(first), check=False).returncode]
            codes.append(beside.wait())
        except KeyboardInterrupt:
            beside.wait()
            return 130
        output.seek(0)
        print(f"== beside it: {second}", flush=True)
        for line in output:
            print(line, end="")
    return max(abs(code) for code in codes)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
