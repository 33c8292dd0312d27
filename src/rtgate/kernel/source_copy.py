# SPDX-License-Identifier: MIT
"""One copy of a source tree that many changes pass through, one after the other.

What `rtgate build --patches` does, but it writes only the files that two changes touch: to compare 80 000 files for
each change would take longer than to compile what it changes.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from rtgate.kernel.harmless import KernelChange
from rtgate.kernel.patches import add_code, apply, synchronise
from rtgate.kernel.source import Tree

_FILE = re.compile(r"^\+\+\+ b/(\S+)", re.MULTILINE)
_MAKEFILE, _CODE = "init/Makefile", "placebo"


class SourceCopy:
    """The copy. Whoever uses it keeps others out of its directory."""

    def __init__(self, place: Path, source: Tree, notice: Callable[[str], None] = lambda _: None) -> None:
        self.source = source
        self._place = place
        self._notice = notice
        self._touched = place.with_name(f"{place.name}.touched")
        self._state = place.with_name(f"{place.name}.state")

    def with_change(self, change: KernelChange | None) -> Tree:
        """Return the copy with the files of a change and of no other; None for the source as it is.

        Raises:
            ConfigError: a patch does not apply, or the source is edited while it is copied.
            InfrastructureError: rsync or patch is missing or fails.
        """
        self._renew()
        self._restore()
        patches = change.patches if change else ()
        files = [name for patch in patches for name in _FILE.findall(patch.read_text(encoding="utf-8"))]
        code = change.code if change else None
        files += [_MAKEFILE, f"init/{_CODE}.c"] if code else []
        self._touched.write_text("".join(f"{name}\n" for name in files), encoding="utf-8")
        for patch in patches:
            apply(patch, self._place)
        if code:
            add_code(code, self._place, _CODE)
        return self._tree(*patches, *((code,) if code else ()))

    def _tree(self, *parts: Path) -> Tree:
        fingerprint = self.source.identity.fingerprint
        if not parts:
            return self.source.copy_at(self._place, fingerprint)
        state = hashlib.sha256(fingerprint.encode())
        for part in parts:
            state.update(part.read_bytes())
        return self.source.copy_at(self._place, state.hexdigest())

    def _renew(self) -> None:
        """Copy the source, unless it is there as it is now."""
        fingerprint = self.source.identity.fingerprint
        if self._state.is_file() and self._state.read_text(encoding="utf-8") == fingerprint:
            return
        self._notice(f"copying {self.source.path}")
        self._state.unlink(missing_ok=True)
        self._place.parent.mkdir(parents=True, exist_ok=True)
        synchronise(self.source.path, self._place)
        self.source.refuse_edits()
        self._touched.unlink(missing_ok=True)
        self._state.write_text(fingerprint, encoding="utf-8")

    def _restore(self) -> None:
        """Undo what the last change did."""
        if not self._touched.exists():
            return
        for name in self._touched.read_text(encoding="utf-8").splitlines():
            original = self.source.path / name
            if original.exists():
                shutil.copyfile(original, self._place / name)  # with a new time, so that it is compiled again
            else:
                (self._place / name).unlink(missing_ok=True)
        self._touched.unlink()
