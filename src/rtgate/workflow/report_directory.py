# SPDX-License-Identifier: MIT
"""The directory that gets a report: nobody else's, and held by one rtgate at a time."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.files import exclusive_lock

PAGE = "index.html"
SUMMARY = "summary.html"
"""The report's first screen as a page of its own, for mails and where Allure is missing."""
BUILD_LOGS = "build-logs"
"""What compilers said of kernels that could not be built: who reads an answer does not see our disk."""

_FORMER, _WHOLE, _GONE, _LOG = ".former", ".whole", ".gone", "measure.log"
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES})
_OURS = frozenset(
    {
        *("records", "allure-results", PAGE, SUMMARY, "verdict.json", "junit.xml", "history.jsonl", _LOG),
        *("lava", "records.sha256", "verdict.sha256", "note.md", "note.txt", "reply.eml", "bisect", BUILD_LOGS),
    }
)


def require_report_directory(output: Path) -> None:
    """Refuse a report directory that is somebody else's."""
    if output.exists() and not output.is_dir():
        raise ConfigError(f"{output} is not a directory: name another one with -o")
    if output.is_dir():
        others = sorted(
            path.name for path in output.iterdir() if path.name not in _OURS and not path.name.startswith(".")
        )
        if others:
            raise ConfigError(
                f"{output} holds something else ({', '.join(others[:3])}): name another directory with -o"
            )


def page_url(url: str, output: Path) -> str:
    """Return the URL of a report, whose directory may be given, with a `/`: without Allure it has the summary alone."""
    return f"{url}{PAGE if (output / PAGE).exists() else SUMMARY}" if url.endswith("/") else url


@contextlib.contextmanager
def lock(output: Path) -> Iterator[None]:
    """Hold the report directory: two gates in one would take each other's records away."""
    with exclusive_lock(output / ".lock", str(output)):
        try:
            yield
        except OSError as error:
            if error.errno in _UNWRITABLE:
                raise InfrastructureError(f"{output} cannot be written: {error.strerror}") from error
            raise


@contextlib.contextmanager
def replacing(output: Path) -> Iterator[None]:
    """Empty the parts of a report directory that are ours; what trends are made from stays.

    They come back, but for the log, if the block ends before anything was measured: a mistake must not take an older
    report away.
    """
    former = output / _FORMER
    _give_back(output)  # for an rtgate that was killed
    former.mkdir(parents=True, exist_ok=True)
    try:
        for name in _OURS - {"history.jsonl"}:
            if (output / name).exists():
                (output / name).rename(former / name)
        (former / _WHOLE).touch()
        yield
    finally:
        _give_back(output)


def _give_back(output: Path) -> None:
    """Put an older report back where nothing took its place, and remove it where something did."""
    former = output / _FORMER
    whole = (former / _WHOLE).exists()
    has_begun = any((output / name).exists() for name in ("verdict.json", "lava"))
    if not whole:
        # It was put aside, or is being given back, in part: what stands there is the older report's as well.
        _put_back(former, output)
    elif not has_begun and not any((output / "records").glob("*/*/*/*/record.json")):
        if (output / "records").is_dir():
            shutil.rmtree(output / "records")
        for name in _OURS - {_LOG, "records", "history.jsonl"}:
            if (former / name).exists() and (output / name).is_dir():
                shutil.rmtree(output / name)
        (former / _WHOLE).unlink()
        _put_back(former, output)
    _remove(former, output / _GONE)


def _remove(former: Path, gone: Path) -> None:
    """Remove what is not needed any more, under a name that nobody takes for an older report if this is killed."""
    shutil.rmtree(gone, ignore_errors=True)
    with contextlib.suppress(OSError):
        former.rename(gone)
    for directory in (gone, former):
        shutil.rmtree(directory, ignore_errors=True)


def _put_back(former: Path, output: Path) -> None:
    for path in former.glob("*"):
        place = output / path.name
        if not place.exists() or (place.is_file() and path.name != _LOG):
            path.rename(place)
