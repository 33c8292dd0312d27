# SPDX-License-Identifier: MIT
"""The wheel, installed into an environment that has nothing but what it declares, used far from the clone.

A guard in every Python process there refuses to open a file of the clone, or to hand one to a program.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from selftests.integration.conftest import ROOT

from rtgate import strict_yaml
from rtgate.report import html

SHARED = (
    "boards",
    "kernel-configs",
    "lava-jobs",
    "target",
    "tests",
    "placebos.yaml",
    "profiles.yaml",
    "thresholds.yaml",
)

GUARD = """\
import os, sys

def _refuse(event, arguments):
    if event in {"open", "os.listdir", "os.scandir", "os.chdir", "subprocess.Popen"}:
        for word in _words(arguments):
            path = os.path.abspath(word) if event != "subprocess.Popen" else word
            if CLONE in path and not path.startswith(LIBRARIES):
                raise RuntimeError(f"{event} of the clone's {path}")

def _words(value):
    if isinstance(value, (list, tuple)):
        return [word for one in value for word in _words(one)]
    return [os.fsdecode(value)] if isinstance(value, (str, bytes, os.PathLike)) else []

sys.addaudithook(_refuse)
"""


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment in which the wheel is installed.

    Attributes:
        prefix: of the environment.
        here: the directory that commands are started in.
    """

    prefix: Path
    here: Path

    @property
    def share(self) -> Path:
        return _site_packages(self.prefix) / "rtgate" / "share"

    def run(
        self, *words: object, timeout: float = 300, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.prefix / "bin" / str(words[0]), *map(str, words[1:])],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=self.here,
            env={**_environment(self.prefix), **(environment or {})},
            check=False,
        )
        print(done.stdout, done.stderr, sep="\n")
        return done


def _site_packages(prefix: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(prefix), "platbase": str(prefix)}))


def _environment(prefix: Path) -> dict[str, str]:
    """Return this machine's environment without the clone's programs, an Allure command and rtgate's settings."""
    places = [place for place in os.environ["PATH"].split(os.pathsep) if not Path(place).is_relative_to(ROOT)]
    places = [str(prefix / "bin"), *(place for place in places if not Path(place, "allure").exists())]
    settings = ("RTGATE_ALLURE", "RTGATE_HISTORY", "RTGATE_SHARE", "RTGATE_SITE", "RTGATE_TREE", "PYTHONPATH", "PWD")
    kept = {name: value for name, value in os.environ.items() if name not in settings}
    return {**kept, "PATH": os.pathsep.join(places)}


def _dependencies(wheel: Path) -> set[str]:
    """Return the distributions that an installer would fetch for the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        declared = importlib.metadata.PathDistribution(zipfile.Path(archive, name.removesuffix("METADATA"))).requires
    wanted, found = list(declared or ()), set[str]()
    while wanted:
        requirement = Requirement(wanted.pop())
        if requirement.name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found.add(requirement.name)
        wanted += importlib.metadata.requires(requirement.name) or []
    return found


def _link(distribution: str, into: Path) -> None:
    """Make an installed distribution importable elsewhere."""
    for file in importlib.metadata.distribution(distribution).files or ():
        link = into / file.parts[0]
        if file.parts[0] not in {"..", "__pycache__"} and not link.exists():
            link.symlink_to(Path(str(file.locate())).parents[len(file.parts) - 1] / file.parts[0])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    words = ("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", directory, ROOT)
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, timeout=300)
    return next(directory.glob("rtgate-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the wheel beside its dependencies, which are linked: to install them anew takes minutes."""
    prefix = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(prefix, symlinks=True)
    packages = _site_packages(prefix)
    for distribution in _dependencies(wheel):
        _link(distribution, packages)
    pip = (sys.executable, "-m", "pip", "--python", prefix / "bin" / "python")
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", wheel], check=True, timeout=300)
    subprocess.run([*pip, "check"], check=True, timeout=300)
    libraries = sysconfig.get_path("purelib")
    guard = f"CLONE = {f'{ROOT}/'!r}\nLIBRARIES = {libraries!r}\n{GUARD}"
    (packages / "sitecustomize.py").write_text(guard)
    return Installed(prefix, tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture(scope="module")
def report(installed: Installed, kernel: Path) -> tuple[Path, subprocess.CompletedProcess[str]]:
    words = ("--kernel", kernel, "-k", "idle", "-o", "report")
    return installed.here / "report", installed.run("rtgate", "gate", "--board", "virt-arm64", *words)


def test_the_wheel_has_what_git_has_or_would_add(wheel: Path) -> None:
    command = [
        "git",
        "-c",
        "safe.directory=*",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        *SHARED,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("no git checkout")
    with zipfile.ZipFile(wheel) as archive:
        share = {name.removeprefix("rtgate/share/") for name in archive.namelist() if name.startswith("rtgate/share/")}
    assert share == set(done.stdout.split("\0")) - {""}


def test_an_editable_install_has_no_copies(tmp_path: Path) -> None:
    program = "import sys; from hatchling.build import build_editable; build_editable(sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, tmp_path], cwd=ROOT, check=True, timeout=60)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        names = archive.namelist()
    assert "_rtgate.pth" in names
    assert not [name for name in names if name.startswith("rtgate/")]


def test_the_guard_keeps_the_clone_away(installed: Installed) -> None:
    for program in (f"open('{ROOT}/profiles.yaml')", f"import subprocess; subprocess.run(['cat', '{ROOT}/LICENSE'])"):
        done = installed.run("python", "-c", program)
        assert done.returncode == 1
        assert f"of the clone's {ROOT}/" in done.stderr


def test_names_come_from_the_installed_package(installed: Installed) -> None:
    for name, path in (
        ("virt-arm64", "boards/virt-arm64.yaml"),
        ("virt-arm64-preempt_rt", "kernel-configs/virt-arm64-preempt_rt.yaml"),
        ("thresholds.yaml", "thresholds.yaml"),
    ):
        done = installed.run("rtgate", "where", name)
        assert done.stdout.endswith(f"{installed.share / path} (shipped, wins)\n")


def test_all_files_are_valid(installed: Installed) -> None:
    done = installed.run("rtgate", "check")
    assert done.returncode == 0
    assert {str(installed.share)} == {line.partition("/share/")[0] + "/share" for line in done.stdout.splitlines()}
    assert f"{installed.share / 'boards' / 'rk3588-evb1.yaml'}: ok" in done.stdout


def test_root_filesystems_are_there(installed: Installed) -> None:
    assert installed.run("rtgate", "rootfs", "--list").stdout == "core\nfull\nxenomai\n"
    done = installed.run("rtgate", "rootfs", "core")
    assert done.returncode == 0
    assert "core for arm64" in done.stdout


def test_a_build_is_the_clone_s(installed: Installed, kernel: Path) -> None:
    done = installed.run("rtgate", "build", "virt-arm64-preempt_rt", "-o", "built", "--quiet", timeout=3000)
    assert done.returncode == 0
    ours, theirs = (
        json.loads((directory / "build.json").read_text()) for directory in (installed.here / "built", kernel)
    )
    assert ours["artefacts"]["image"]["sha256"] == theirs["artefacts"]["image"]["sha256"]


def test_a_gate_passes_without_allure(
    report: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    directory, done = report
    assert done.returncode == 0
    assert "PASS   latency/cyclictest:idle" in done.stdout
    assert json.loads((directory / "verdict.json").read_text())["outcome"] == "PASS"
    assert 'classname="virt-arm64.candidate"' in (directory / "junit.xml").read_text()
    assert list((directory / "allure-results").glob("*-result.json"))
    assert not (directory / "index.html").exists()
    assert "every limit was kept" in (directory / "summary.html").read_text()
    assert "run `npm install --global allure@" in done.stderr
    assert f"Then: rtgate report {directory}/records -o {directory}" in done.stderr


@pytest.mark.long("another kernel and twelve boots, a minute; the slow kernel is in make test")
def test_the_demo_finds_the_slow_kernel(installed: Installed) -> None:
    done = installed.run("rtgate", "demo", timeout=3000)
    assert done.returncode == 0
    assert "demo: the slow kernel was found out by" in done.stdout
    assert "FAIL" in done.stdout


def test_pytest_runs_the_suites_by_hand(
    installed: Installed, report: tuple[Path, subprocess.CompletedProcess[str]]
) -> None:
    words = ("--replay", report[0] / "records", "--verdict", "again.json", "-k", "cyclictest and idle")
    done = installed.run("python", "-m", "pytest", installed.share / "tests", *words)
    assert done.returncode == 0
    before, again = (
        json.loads(path.read_text()) for path in (report[0] / "verdict.json", installed.here / "again.json")
    )
    assert [one["sentence"] for one in again["verdicts"]] == [one["sentence"] for one in before["verdicts"]]


def test_a_job_for_a_shipped_board(installed: Installed) -> None:
    (installed.here / "mine").mkdir()
    (installed.here / "mine" / "Image").write_bytes(bytes(56) + b"ARM\x64" + bytes(8))
    shutil.copyfile(installed.here / "mine" / "Image", installed.here / "board.dtb")
    words = ("--board", "lab-virt-arm64", "--kernel", "mine", "--suite", "latency")
    cache = str(Path(os.environ.get("RTGATE_CACHE") or Path.home() / ".cache" / "rtgate"))
    environment = {"HOME": str(installed.here), "RTGATE_CACHE": cache}
    url = "https://builds.example.org"
    done = installed.run("rtgate", "render", *words, "--artefacts-url", url, environment=environment)
    assert done.returncode == 0
    job = strict_yaml.data((installed.here / "job" / "job.yaml").read_text())
    assert job["device_type"] == "lab-virt-arm64"
    (test,) = (action["test"] for action in job["actions"] if "test" in action)
    *_, step = test["definitions"][0]["repository"]["run"]["steps"]
    assert "rtgate in-job --board lab-virt-arm64" in step


def test_the_page_names_what_pip_does_not_install() -> None:
    page = (ROOT / "docs" / "how-to" / "install-without-a-clone.md").read_text(encoding="utf-8")
    needs = (
        (ROOT / "ci" / "bootstrap").read_text(encoding="utf-8").partition("\nneeds() {\n")[2].partition("\tEND\n")[0]
    )
    packages = set(re.findall(r"^\t\t\S+ (\S+)$", needs, re.MULTILINE))
    assert "qemu-system-arm" in packages
    assert packages - set(re.findall(r"[\w.+-]+", page)) == set()
    assert f"npm install --global allure@{html.VERSION} " in page
