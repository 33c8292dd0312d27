# SPDX-License-Identifier: MIT
"""The commands of the reference documents on virtual boards: which of them run there, and what came of the others.

`python -m bench.seeds [BOARD ...] [PROFILE ...]` measures each case of each profile that the documents' commands have
(those that selftests/data/seeds/commands.yaml names) once, on virtual time, for `SECONDS` at most; nothing else is
changed. The boards of the documents have more CPUs and memory than these: what comes out says that a command runs and
is read, and nothing about latency. Exit code 1 if a case was neither measured nor skipped, or its measurement was not
valid.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from bench import ROOT
from rtgate.board import boards
from rtgate.judge.verdict import Status
from rtgate.workflow.kernels import build_kernel

BOARDS = ("virt-arm64", "virt-arm64-smp2", "virt-x86_64")
SECONDS = 5
_DEVICES = "guide"  # the profile whose tools need the board's devices, and so the build with their drivers


@dataclass(frozen=True, slots=True)
class Came:
    """What came of one case on one board."""

    board: str
    profile: str
    case: str
    state: str
    status: str
    seconds: float
    sentence: str

    @property
    def right(self) -> bool:
        """Whether it was measured and valid, or skipped."""
        return self.state in {"measured", "skipped"} and self.status not in {"ERROR", "MISS", ""}


def main(words: Sequence[str]) -> int:
    """Measure everything, tell of each profile as soon as it is over, and show it all."""
    found: list[Came] = []
    profiles = _short_profiles()
    wanted = [name for name in profiles if name in words] or list(profiles)
    with tempfile.TemporaryDirectory(prefix="rtgate-seeds-") as name:
        site = Path(name)
        (site / "profiles.yaml").write_text(yaml.safe_dump(profiles), encoding="utf-8")
        for board in [word for word in words if word not in profiles] or BOARDS:
            for profile in wanted:
                if kernel := _kernel(board, profile):
                    came = list(_measure(board, profile, kernel, site))
                    print(*came, sep="\n", flush=True)
                    found += came
    _show(found)
    wrong = [one for one in found if not one.right]
    for one in wrong:
        print(f"{one.board} {one.profile} {one.case}: {one.state} {one.status}: {one.sentence}")
    return 1 if wrong or not found else 0


def _short_profiles() -> dict[str, dict[str, Any]]:
    """Return the documents' profiles, no length above `SECONDS`."""
    listed = yaml.safe_load((ROOT / "selftests" / "data" / "seeds" / "commands.yaml").read_text(encoding="utf-8"))
    named = {entry["profile"] for entry in (*listed["tools"], *listed["loads"])}
    shipped = yaml.safe_load((ROOT / "profiles.yaml").read_text(encoding="utf-8"))
    found: dict[str, dict[str, Any]] = {name: data for name, data in shipped.items() if name in named}
    # Messages and steps are the length of these: as many as in the document take a virtual CPU minutes.
    found["nuc"]["tools"]["hackbench"]["options"]["virtual_loops"] = 2
    found["nuc"]["tools"]["ssdd"]["options"]["steps"] = 500
    for data in found.values():
        for lengths in (data, *data.get("tools", {}).values()):
            if "duration" in lengths:
                lengths["duration"] = f"{min(SECONDS, int(lengths['duration'].split()[0]))} s"
    return found


def _kernel(board: str, profile: str) -> Path | None:
    """Return the kernel that a profile is measured with on a board; None if the board has none of its devices."""
    found = boards.board(board)
    build = found.build
    if profile == _DEVICES:
        build = found.qemu.drivers if found.qemu else ""
    return build_kernel(build, None, ROOT / "build" / build).directory if build else None


def _measure(board: str, profile: str, kernel: Path, site: Path) -> Iterator[Came]:
    records = site / "records" / board / profile
    words = ["--board", board, "--kernel", str(kernel), "--profile", profile, "--records", str(records), "-q"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests", "-p", "no:cacheprovider", *words],
        cwd=ROOT,
        env={**os.environ, "RTGATE_SITE": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    path = records / "verdict.json"
    if not path.is_file():
        yield Came(board, profile, "all", "nothing", "", 0, (done.stdout + done.stderr)[-500:])
        return
    verdicts = json.loads(path.read_text(encoding="utf-8"))["verdicts"]
    for case in sorted({verdict["case"] for verdict in verdicts}):
        of_case = [verdict for verdict in verdicts if verdict["case"] == case]
        # What is not valid is no use, whatever limit it breaks.
        useless = [verdict for verdict in of_case if verdict["status"] in {"ERROR", "MISS"}]
        worst = min(useless or of_case, key=lambda verdict: Status(verdict["status"]).rank)
        record = _record(records, case)
        yield Came(
            board=board,
            profile=profile,
            case=case,
            state=record.get("state", "no record"),
            status=worst["status"],
            seconds=record.get("seconds", {}).get("total", 0),
            sentence=worst["sentence"],
        )


def _record(records: Path, case: str) -> Mapping[str, Any]:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in records.rglob("record.json")]
    return next((one for one in found if one["case"] == case), {})


def _show(found: Sequence[Came]) -> None:
    table = Table(title=f"commands of the reference documents, {SECONDS} s at most")
    for heading in ("board", "profile", "case", "state", "status", "host s", "sentence"):
        table.add_column(heading, overflow="fold")
    for one in found:
        cells = (one.board, one.profile, one.case, one.state, one.status, f"{one.seconds:.1f}")
        table.add_row(*cells, one.sentence[:160])
    Console(width=200).print(table)


if __name__ == "__main__":
    began = time.monotonic()
    code = main(sys.argv[1:])
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(code)
