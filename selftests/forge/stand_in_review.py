# SPDX-License-Identifier: MIT
"""Stands in for `rtgate review`: waits until a test says what it comes to, and publishes that.

Arguments: a directory, `-o`, the patch set's directory. In the former it appends to `log` what it does, and waits for a
file with the patch set's name, which holds the exit code, and which commit of the chain is to blame, from 0.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rtgate.forge.gerrit import Gerrit
from rtgate.forge.merge_request import Answer, Blame


def main() -> int:
    control, name = Path(sys.argv[1]), Path(sys.argv[3]).name

    def note(text: str) -> None:
        with (control / "log").open("a") as log:
            log.write(f"{text} {name}\n")

    def stop(_number: int, _frame: FrameType | None) -> NoReturn:
        note("ended")
        sys.exit(130)

    signal.signal(signal.SIGTERM, stop)
    note("begins")
    while not (control / name).exists():
        time.sleep(0.1)
    forge = Gerrit.from_environment()
    forge.merge_request()
    code, *guilty = map(int, (control / name).read_text().split())
    blame = None
    if guilty:
        commits = tuple(one.revision for one in forge.chain)
        suspects, innocents = commits[guilty[0] : guilty[0] + 1], commits[: guilty[0]]
        blame = Blame(suspects=suspects, innocents=innocents, sentence="what the bisection found")
    forge.publish(Answer(exit_code=code, markdown="", text=f"the review came to {code}", blame=blame))
    note("published")
    return code


if __name__ == "__main__":
    sys.exit(main())
