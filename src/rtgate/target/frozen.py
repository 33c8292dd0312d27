# SPDX-License-Identifier: MIT
"""Whether a control group keeps a process from running, as a paused container's does.

Version 1 has a controller `freezer` (Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst), version 2 the file
`cgroup.events` in each group (Documentation/admin-guide/cgroup-v2.rst). The state and the wait channel of a frozen
process are those of whatever it slept in.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def is_frozen(pid: int) -> bool:
    """Return whether a control group has frozen a process; False where its groups cannot be read."""
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
        mounts = list(_mounts(Path("/proc/self/mountinfo").read_text(encoding="utf-8")))
    except OSError:
        return False
    for line in groups:
        number, controllers, path = line.split(":", 2)
        for is_v2, root, place in mounts:
            if is_v2 is (number == "0") and (is_v2 or "freezer" in controllers.split(",")):
                inside = path.removeprefix(root.rstrip("/")).lstrip("/")
                if _says_frozen(place / inside, is_v2=is_v2):
                    return True
    return False


def _says_frozen(group: Path, *, is_v2: bool) -> bool:
    try:
        if is_v2:
            return "frozen 1" in (group / "cgroup.events").read_text(encoding="ascii").splitlines()
        return (group / "freezer.state").read_text(encoding="ascii").strip() == "FROZEN"
    except OSError:
        return False


def _mounts(text: str) -> Iterator[tuple[bool, str, Path]]:
    """Yield version 2 or not, root and place of each mount that has a freezer (proc_pid_mountinfo(5))."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and "freezer" in options.split(" ")[-1].split(",")):
            yield kind == "cgroup2", before.split(" ")[3], Path(before.split(" ")[4])
