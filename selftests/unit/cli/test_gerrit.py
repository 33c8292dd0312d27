# SPDX-License-Identifier: MIT
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rtgate.cli.main import main


def test_options_that_no_review_takes_are_refused_before_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RTGATE_GERRIT_USER", "rtgate")
    monkeypatch.setenv("RTGATE_GERRIT_PASSWORD", "a-password-of-some-length")
    words = ["gerrit", "--project", "a", "--tree", str(tmp_path), "-o", str(tmp_path / "out")]
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    with pytest.raises(SystemExit) as ended:
        main([*words, "--url", "http://127.0.0.1:9", "--", "--untrusted", "--allow-unjudged"])
    assert ended.value.code == 2
    assert "rtgate review: error: unrecognized arguments: --allow-unjudged" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_is_no_clone_is_said_before_a_review_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RTGATE_GERRIT_USER", "rtgate")
    monkeypatch.setenv("RTGATE_GERRIT_PASSWORD", "a-password-of-some-length")
    words = ["gerrit", "--project", "a", "--tree", str(tmp_path), "-o", str(tmp_path / "out")]
    assert main([*words, "--url", "http://127.0.0.1:9"]) == 2
    assert f"{tmp_path} is not a git clone: name one of the kernel with --tree DIR" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
