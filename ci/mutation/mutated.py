# SPDX-License-Identifier: MIT
"""A pytest plugin (`-p mutated`) that loads a changed text in place of a module: RTGATE_MUTANT is `MODULE=FILE`.

No file of the clone is written. A module that cannot be loaded any more ends pytest with 1, as a test that fails does.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import CodeType

MODULE, _, FILE = os.environ["RTGATE_MUTANT"].partition("=")


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 # importlib's
        """Return the changed code; the compiled file beside the module is of the unchanged one."""
        code: CodeType = compile(Path(FILE).read_bytes(), self.path, "exec", dont_inherit=True)
        return code


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if fullname != MODULE:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, sys.modules[fullname.rpartition(".")[0]].__path__)
        assert found is not None
        assert found.origin is not None
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=_Loader(fullname, found.origin))


sys.meta_path.insert(0, _Finder())
try:
    importlib.import_module(MODULE)
except BaseException:  # noqa: BLE001 # whatever the change does
    traceback.print_exc()
    os._exit(1)
