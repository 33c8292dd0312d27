# SPDX-License-Identifier: MIT
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rtgate.cli.main import main


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a command line whose server does not answer, and whose clone is the test's directory."""
    monkeypatch.setenv("RTGATE_GERRIT_USER", "rtgate")
    monkeypatch.setenv("RTGATE_GERRIT_PASSWORD", "a-password-of-some-length")
    clone, output = ("--tree", str(tmp_path)), ("-o", str(tmp_path / "out"))
    return ["gerrit", "--project", "a", *clone, *output, "--url", "http://127.0.0.1:9"]


def test_options_that_no_review_takes_are_refused_before_one_begins(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    with pytest.raises(SystemExit) as ended:
        main([*words, "--", "--untrusted", "--allow-unjudged"])
    assert ended.value.code == 2
    assert "rtgate review: error: unrecognized arguments: --allow-unjudged" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_is_no_clone_is_said_before_a_review_begins(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert f"{tmp_path} is not a git clone: name one of the kernel with --tree DIR" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
