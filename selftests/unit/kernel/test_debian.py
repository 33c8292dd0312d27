# SPDX-License-Identifier: MIT
from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from rtgate import site
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.kernel import debian

# Of apt 2.6.1 (Debian 12).
_NOT_FOUND = """echo "E: Version '${last#*=}' for '${last%=*}' was not found" >&2"""
PINNED, NEWER = "6.12.7-1~deb12u1", "6.12.9-1~deb12u1"


@pytest.fixture
def tarball(fake_tree: Path, tmp_path: Path) -> Path:
    path = tmp_path / "linux-source-6.12.tar.xz"
    subprocess.run(["tar", "-cJf", path, "-C", tmp_path, fake_tree.name], check=True)
    return path


@pytest.fixture(autouse=True)
def pin(tarball: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock file for the tarball, and nothing installed."""
    path = tmp_path / "sources.lock.yaml"
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    path.write_text(f"package: linux-source-6.12\nversion: {PINNED}\ntarball: {tarball.name}\nsha256: {digest}\n")
    monkeypatch.setattr(site, "find", lambda _kind, _name: path)
    monkeypatch.setattr(debian, "_INSTALLED", tmp_path / "usr/src")
    return path


def fake_apt(directory: Path, monkeypatch: pytest.MonkeyPatch, tarball: Path, version: str) -> None:
    """Put an apt-get and a dpkg-deb in front that know one package version."""
    programs = directory / "programs"
    programs.mkdir()
    inside = directory / "usr/src" / tarball.name
    known = f"*={version}|*6.12) touch source.deb;; *) {_NOT_FOUND}; exit 100;;"
    extract = f'mkdir -p "$3{inside.parent}"; cp "{tarball}" "$3{inside}"'
    scripts = {
        "apt-get": f"for last; do :; done\ncase $last in {known} esac",
        "dpkg-deb": f'case $1 in --field) echo "{version}";; *) {extract};; esac',
    }
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")


def test_installed_tarball_is_used_and_unpacked_once(tarball: Path, tmp_path: Path) -> None:
    (tmp_path / "usr/src").mkdir(parents=True)
    (tmp_path / "usr/src" / tarball.name).write_bytes(tarball.read_bytes())
    notices: list[str] = []
    found = debian.unpacked_source(notices.append)
    assert found.pinned is None
    assert (found.path / "Makefile").is_file()
    assert debian.unpacked_source(notices.append) == found
    assert len(notices) == 1


def test_what_a_killed_download_left_is_removed(
    tarball: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = cache / "sources" / ".partial-killed"
    left.mkdir(parents=True)
    (left / "source.deb").write_bytes(b"140 MB")
    fake_apt(tmp_path, monkeypatch, tarball, PINNED)
    debian.unpacked_source(lambda _: None)
    assert [path.name for path in (cache / "sources").iterdir() if "partial" in path.name] == []


def test_pinned_version_is_downloaded(tarball: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_apt(tmp_path, monkeypatch, tarball, PINNED)
    found = debian.unpacked_source(lambda _: None)
    assert (found.version, found.pinned) == (PINNED, None)


def test_debian_has_moved_on(tarball: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_apt(tmp_path, monkeypatch, tarball, NEWER)
    found = debian.unpacked_source(lambda _: None)
    assert (found.version, found.pinned) == (NEWER, PINNED)
    assert debian.unpacked_source(lambda _: pytest.fail("not from the cache")) == found


def test_a_mirror_that_does_not_answer_is_no_reason_for_another_version(
    tarball: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every later build would be of it, and its warning would say that Debian no longer has the pinned one."""
    fake_apt(tmp_path, monkeypatch, tarball, NEWER)
    apt = tmp_path / "programs/apt-get"
    failed = 'echo "E: Failed to fetch http://x/y.deb  Connection refused" >&2'
    apt.write_text(apt.read_text().replace(_NOT_FOUND, failed))
    with pytest.raises(InfrastructureError, match="Failed to fetch"):
        debian.unpacked_source(lambda _: None)
    assert not list((site.cache() / "sources").glob("6*"))


def test_another_version_that_is_installed_is_no_reason_to_download_again(
    tarball: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_apt(tmp_path, monkeypatch, tarball, NEWER)
    (tmp_path / "usr/src").mkdir(parents=True)
    (tmp_path / "usr/src" / tarball.name).write_bytes(b"of another version")
    source = debian.unpacked_source(lambda _: None)
    assert debian.unpacked_source(lambda _: pytest.fail("not from the cache")) == source


def test_an_older_version_in_the_cache_does_not_stand_for_a_newer_pin(
    tarball: Path, pin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_apt(tmp_path, monkeypatch, tarball, NEWER)
    older = site.cache() / "sources" / PINNED
    older.mkdir(parents=True)
    pin.write_text(pin.read_text().replace(PINNED, NEWER))
    source = debian.unpacked_source(lambda _: None)
    assert (source.version, source.pinned) == (NEWER, None)


def test_a_version_that_another_pin_got_stays_as_it_is(
    tarball: Path, pin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Builds run in it."""
    fake_apt(tmp_path, monkeypatch, tarball, NEWER)
    first = debian.unpacked_source(lambda _: None)
    (first.path / "rtgate-build-x").mkdir()
    pin.write_text(pin.read_text().replace(PINNED, f"{PINNED}.1"))
    second = debian.unpacked_source(lambda _: None)
    assert (second.path, second.pinned) == (first.path, f"{PINNED}.1")
    assert (first.path / "rtgate-build-x").is_dir()


def test_the_pinned_tarball_installed_later_replaces_another_version(
    tarball: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_apt(tmp_path, monkeypatch, tarball, NEWER)
    debian.unpacked_source(lambda _: None)
    (tmp_path / "usr/src").mkdir(parents=True)
    (tmp_path / "usr/src" / tarball.name).write_bytes(tarball.read_bytes())
    source = debian.unpacked_source(lambda _: None)
    assert (source.version, source.pinned, source.path.is_symlink()) == (PINNED, None, False)


def test_pinned_version_with_other_content(
    tarball: Path, pin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_apt(tmp_path, monkeypatch, tarball, PINNED)
    pin.write_text(pin.read_text().partition("sha256")[0] + f"sha256: {'f' * 64}\n")
    with pytest.raises(InfrastructureError, match="pinned is ffff"):
        debian.unpacked_source(lambda _: None)
    assert not (site.cache() / "sources" / PINNED).exists()


def test_no_package(tarball: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_apt(tmp_path, monkeypatch, tarball, PINNED)
    (tmp_path / "programs/apt-get").write_text('#!/bin/sh\necho "E: Unable to locate package" >&2\nexit 100\n')
    with pytest.raises(InfrastructureError, match=r"Unable to locate package.*--tree"):
        debian.unpacked_source(lambda _: None)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [("sha256: abc", "is not a sha256"), ("package: ../x", "is not a package"), ("version: a/b", "is not a version")],
)
def test_lock_file_is_checked(pin: Path, line: str, complaint: str) -> None:
    name = line.partition(":")[0]
    kept = [old for old in pin.read_text().splitlines() if not old.startswith(name)]
    pin.write_text("\n".join([*kept, line]) + "\n")
    with pytest.raises(ConfigError, match=complaint):
        debian.load_pin(pin)


def test_shipped_lock_file_is_valid() -> None:
    shipped = Path(__file__).resolve().parents[3] / "kernel-configs/sources.lock.yaml"
    assert debian.load_pin(shipped).package.startswith("linux-source-")
