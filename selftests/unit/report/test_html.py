# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rtgate import site
from rtgate.errors import InfrastructureError
from rtgate.report import allure, html

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World

PAGE = """<!DOCTYPE html><html><head><title>t</title></head><body>
    <script async src="https://www.googletagmanager.com/gtag/js?id=G-1"></script>
    <script>
        window.dataLayer = window.dataLayer || [];
        gtag('config', 'G-1');
    </script>
    <script>report()</script></body></html>"""


def _program(directory: Path, body: str) -> Path:
    program = directory / "allure"
    program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    program.chmod(0o755)
    return program


@pytest.fixture
def results(tmp_path: Path) -> Path:
    directory = tmp_path / "results"
    directory.mkdir()
    (directory / "executor.json").write_text('{"reportName": "rtgate: virt-arm64 6.12.107"}', encoding="utf-8")
    return directory


def test_one_file_that_tells_nobody(tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    keep = f'cp allurerc.json "{tmp_path}"; echo "$@" >"{tmp_path}/argv"'
    body = f'{keep}; mkdir page; cp "{tmp_path}/page.html" page/index.html'
    monkeypatch.setenv("RTGATE_ALLURE", str(_program(tmp_path, body)))
    made = html.generate(results, tmp_path / "report")
    assert made == tmp_path / "report" / "index.html"
    page = made.read_text(encoding="utf-8")
    assert "google" not in page
    assert "gtag" not in page
    assert "<script>report()</script>" in page
    assert page.index("Content-Security-Policy") < page.index("<title>")
    configuration = json.loads((tmp_path / "allurerc.json").read_text(encoding="utf-8"))
    assert configuration["name"] == "rtgate: virt-arm64 6.12.107"
    assert configuration["historyPath"] == str(tmp_path / "report" / "history.jsonl")
    assert configuration["plugins"]["awesome"]["options"]["singleFile"] is True
    assert len(configuration["categories"]) == 5
    assert (tmp_path / "argv").read_text().split() == [
        "generate",
        "--config",
        "allurerc.json",
        "-o",
        "page",
        str(results),
    ]


@pytest.mark.parametrize("remembered", ["", "{damaged"])
def test_the_first_screen_stands_above_allure_s_page(
    tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], remembered: str
) -> None:
    (results / allure.FIRST_SCREEN).write_text("<section>FAIL <!-- rtgate: trend --></section>", encoding="utf-8")
    (results / allure.FIGURES).write_text("[]", encoding="utf-8")
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    monkeypatch.setenv(
        "RTGATE_ALLURE", str(_program(tmp_path, f'mkdir page; cp "{tmp_path}/page.html" page/index.html'))
    )
    (tmp_path / "history").write_text(remembered, encoding="utf-8")
    text = html.generate(results, tmp_path / "report", tmp_path / "history").read_text(encoding="utf-8")
    assert "<body><section>FAIL </section>" in text
    # A damaged history takes no verdict away.
    assert ("no trend in the report" in capsys.readouterr().err) is bool(remembered)


def test_a_failure_is_the_lab_s(tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTGATE_ALLURE", str(_program(tmp_path, "echo 'no such plugin' >&2; exit 3")))
    with pytest.raises(InfrastructureError, match="exit code 3: no such plugin"):
        html.generate(results, tmp_path / "report")
    monkeypatch.setenv("RTGATE_ALLURE", str(_program(tmp_path, "exit 0")))
    with pytest.raises(InfrastructureError, match=r"no index\.html"):
        html.generate(results, tmp_path / "report")
    monkeypatch.setenv("RTGATE_ALLURE", str(_program(tmp_path, "sleep 20")))
    monkeypatch.setattr(html, "_DEADLINE_S", 0.2)
    with pytest.raises(InfrastructureError, match="did not end"):
        html.generate(results, tmp_path / "report")


def test_a_missing_program_says_what_to_do(tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RTGATE_ALLURE", raising=False)
    monkeypatch.setattr(site, "shipped_directory", lambda: tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(html.NoAllureError, match=r"npm install --global allure@[\d.]+`"):
        html.generate(results, tmp_path / "report")
    monkeypatch.setenv("RTGATE_ALLURE", str(tmp_path / "nothing"))
    with pytest.raises(InfrastructureError, match="RTGATE_ALLURE"):
        html.generate(results, tmp_path / "report")


def test_the_version_is_the_clone_s() -> None:
    package = json.loads((site.shipped_directory() / "package.json").read_text(encoding="utf-8"))
    assert package["dependencies"] == {"allure": html.VERSION}


def test_the_clone_s_own_program_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RTGATE_ALLURE", raising=False)
    own = tmp_path / "node_modules" / ".bin"
    own.mkdir(parents=True)
    _program(own, "")
    _program(tmp_path, "")
    monkeypatch.setattr(site, "shipped_directory", lambda: tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert html._command() == [str(own / "allure")]


@pytest.mark.skipif(
    not (site.shipped_directory() / "node_modules" / ".bin" / "allure").is_file() and shutil.which("allure") is None,
    reason="Allure is not installed (npm install)",
)
def test_the_real_allure(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RTGATE_ALLURE", raising=False)
    record = world.stored(world.boot(), tmp_path / "records")
    assert record.directory is not None
    for moment in (1_795_526_951, 1_795_526_951, 1_795_613_351):  # the first run is reported twice
        os.utime(record.directory / "record.json", (moment, moment))
        allure.write([record], [world.within_limit()], tmp_path / "results")
        page = html.generate(tmp_path / "results", tmp_path / "report").read_text(encoding="utf-8")
    assert "googletagmanager" not in page
    assert "rtgate: virt-arm64 6.12.107-rt" in page
    assert "every limit was kept" in page.partition('id="app"')[0]
    assert "Trend over 2 runs" in page
    assert len((tmp_path / "report" / "history.jsonl").read_text(encoding="utf-8").splitlines()) == 3
    assert {path.name for path in (tmp_path / "report").iterdir()} == {"index.html", "history.jsonl"}
