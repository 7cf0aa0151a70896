"""`python -m fewbits.report RESULT.json OUT.html`."""

import sys
from pathlib import Path

from fewbits.errors import FewbitsError
from fewbits.report.page import write

BAD_INPUT = 2


def main(arguments: list[str]) -> int:
    """0, or 2 after one line on stderr about what was wrong."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m fewbits.report RESULT.json OUT.html\n")
        return BAD_INPUT
    try:
        write(Path(arguments[0]), Path(arguments[1]))
    except (FewbitsError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
