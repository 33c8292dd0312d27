# SPDX-License-Identifier: MIT
"""The report as one HTML file, which Allure 3 makes from a results directory.

Facts of Allure 3.18 that this module depends on: `allure awesome` takes no categories and ignores `categories.json`,
so a configuration file for `allure generate` states them; the page loads a tracking script from Google, with the
report's identifier, and no option stops it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from rtgate import files, site
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.report import allure
from rtgate.report.categories import CATEGORIES
from rtgate.report.notices import say
from rtgate.report.page import TREND
from rtgate.report.trend import trend

VERSION = "3.18.0"
"""The Allure that rtgate was tested with: the one of package.json, which a wheel does not have."""

_DEADLINE_S = 300
_HISTORY_RUNS = 100
_TRACKING = re.compile(
    r"<script async src=\"https://www\.googletagmanager\.com/[^\"]*\"></script>\s*<script>\s*window\.dataLayer.*?</script>",
    re.DOTALL,
)
# Whatever a later Allure puts into the page, a browser loads nothing from elsewhere: a lab's figures stay in the lab.
_POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src data: blob: 'unsafe-inline' 'unsafe-eval'; "
    "base-uri * data: blob:; form-action 'none'\">"
)


class NoAllureError(InfrastructureError):
    """The Allure command is not installed. The message says how to get it."""


def generate(results: Path, output: Path, history: Path | None = None) -> Path:
    """Make `index.html` in `output` from a results directory and return its path.

    Args:
        results: the results directory that `allure.write` made.
        output: the report's directory, made when missing; what else lies there stays.
        history: the file in which runs are remembered, for trends; `history.jsonl` in `output` when None.

    Raises:
        NoAllureError: the Allure command is not installed.
        InfrastructureError: it failed, or the page cannot be written.
        ConfigError: what is remembered is no file.
    """
    history_file = (history or output / "history.jsonl").absolute()
    if os.path.lexists(history_file):
        files.require_regular(history_file)  # Allure would wait for it, or read it for ever
    command = _command()
    try:
        output.mkdir(parents=True, exist_ok=True)
        with files.scratch(Path(tempfile.gettempdir()), "rtgate-allure-") as work:
            (work / "allurerc.json").write_text(json.dumps(_configuration(results, history_file)), encoding="utf-8")
            _run([*command, "generate", "--config", "allurerc.json", "-o", "page", str(results.absolute())], work)
            index = work / "page" / "index.html"
            if not index.is_file():
                raise InfrastructureError(f"Allure made no index.html from {results}")
            text = _TRACKING.sub("", index.read_text(encoding="utf-8")).replace("<head>", f"<head>{_POLICY}", 1)
            text = text.replace("<body>", f"<body>{_first_screen(results, history_file)}", 1)
            target = output / "index.html"
            target.write_text(text, encoding="utf-8")
            return target
    except OSError as error:
        raise InfrastructureError(f"the report could not be written to {output}: {error}") from error


def _first_screen(results: Path, history: Path) -> str:
    """Return the first screen with the trend; nothing for results that rtgate did not write."""
    try:
        screen = (results / allure.FIRST_SCREEN).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    try:
        trend_html = trend(results / allure.FIGURES, history)
    except (OSError, ValueError, KeyError, TypeError) as error:
        # A verdict must not get lost for what earlier runs left.
        say(f"no trend in the report: {history} cannot be read ({type(error).__name__})")
        trend_html = ""
    return screen.replace(TREND, trend_html)


def _command() -> list[str]:
    """Return how to start Allure: RTGATE_ALLURE, else the clone's own, else the one on PATH. Raises as `generate`."""
    setting = os.environ.get("RTGATE_ALLURE")
    if setting:
        if shutil.which(setting) is None:
            raise InfrastructureError(f"RTGATE_ALLURE is {setting}, which is not a program that can be run")
        return [setting]
    try:
        own = site.shipped_directory() / "node_modules" / ".bin" / "allure"
    except ConfigError:
        own = Path("allure")
    if own.is_file():
        return [str(own)]
    program = shutil.which("allure")
    if program is None:
        raise NoAllureError(
            "index.html is made by the Allure command, which is not installed: install Node 18 or later, then run "
            f"`npm install --global allure@{VERSION}` (in a clone of rtgate: `ci/bootstrap`), or name the program in "
            "RTGATE_ALLURE"
        )
    return [program]


def _configuration(results: Path, history: Path) -> dict[str, object]:
    return {
        "name": _name(results),
        "historyPath": str(history),
        "historyLimit": _HISTORY_RUNS,
        "hideLabels": ["framework", "host", "epic", "feature", "story"],  # parameters and tags say the same
        "categories": [
            {
                "name": category.name,
                "matchers": [{"message": category.message}],
                "groupByMessage": False,
                "expand": True,
            }
            for category in CATEGORIES
        ],
        "plugins": {
            # Allure adds its `agent` plugin unless it is named.
            "agent": {"enabled": False},
            "awesome": {
                "options": {
                    "singleFile": True,
                    "reportLanguage": "en",
                    "groupBy": ["parentSuite", "suite"],
                    "defaultSortBy": "status,asc",
                }
            },
        },
    }


def _name(results: Path) -> str:
    """Return the report's name, which `allure.write` left in the results."""
    try:
        return str(json.loads((results / "executor.json").read_text(encoding="utf-8"))["reportName"])
    except (OSError, ValueError, KeyError, TypeError):  # somebody else's results have no such name
        return "rtgate"


def _run(command: list[str], directory: Path) -> None:
    environment = {**os.environ, "ALLURE_NO_ANALYTICS": "1", "NO_COLOR": "1"}
    try:
        process = subprocess.run(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InfrastructureError(f"Allure did not end within {_DEADLINE_S} s") from None
    if process.returncode != 0:
        message = (process.stderr or process.stdout).strip()[-800:]
        raise InfrastructureError(f"Allure ended with exit code {process.returncode}: {message or 'no message'}")
