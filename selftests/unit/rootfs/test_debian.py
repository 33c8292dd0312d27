# SPDX-License-Identifier: MIT
from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from rtgate.errors import InfrastructureError
from rtgate.rootfs import debian


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory that is searched for programs before all others."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("RTGATE_DEBIAN_MIRROR", "http://mirror.example/debian")
    return directory


def _program(directory: Path, name: str, body: str) -> None:
    (directory / name).write_text(f"#!/bin/sh\n{body}\n")
    (directory / name).chmod(0o755)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("2.10-1", "2.10"), ("1:1.37.0-6+b9", "1.37.0"), ("0.8.9+dfsg-1.1", "0.8.9+dfsg"), ("1:5", "5"), ("5", "5")],
)
def test_upstream_version(version: str, expected: str) -> None:
    assert debian.upstream(version) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bin/sh", "usr/bin/sh"),
        ("lib64/ld.so", "usr/lib64/ld.so"),
        ("usr/bin/x", "usr/bin/x"),
        ("etc/lib/x", "etc/lib/x"),
    ],
)
def test_files_of_old_packages_move_below_usr(name: str, expected: str) -> None:
    assert debian.usr_path(name) == expected


def test_the_line_that_tells_is_found_and_passwords_are_not_shown() -> None:
    errors = "W: something\nE: Failed to fetch http://user:secret@host/x  404\nE: Some index files failed\n"
    assert debian.telling_line(errors) == "E: Failed to fetch http://host/x  404"
    assert debian.telling_line("dpkg-deb: error: not an archive\n") == "dpkg-deb: error: not an archive"
    assert debian.telling_line("\n") == "no message"


def test_the_mirror_is_that_of_the_main_archive() -> None:
    targets = (
        "Other|Other|nodistro|https://packages.example\n"
        "Debian|Debian-Security|bookworm-security|http://one.example/debian-security\n"
        "Debian|Debian|bookworm|http://one.example/debian\n"
    )
    assert debian.choose_mirror(targets) == "http://one.example/debian"
    assert debian.choose_mirror("Ubuntu|Ubuntu|noble|http://two.example\n") == ""


def test_a_system_without_a_mirror_of_debian_is_told_what_to_do(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RTGATE_DEBIAN_MIRROR")
    _program(programs, "apt-get", "echo 'Ubuntu|Ubuntu|noble|http://two.example'")
    with pytest.raises(InfrastructureError, match="RTGATE_DEBIAN_MIRROR"):
        debian.mirror()


_NO_LISTS = """
state={state}
case "$*" in
*indextargets*)
    case "$*" in *Dir::State::Lists=*)
        [ ! -e $state ] || echo 'Debian|Debian|bookworm|http://one.example/debian' ;;
    esac
    ;;
*update*) {update} ;;
esac
"""


def test_where_the_system_has_no_lists_they_are_fetched_to_know_the_mirror(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the images of Debian's containers: there apt knows the addresses, and not whose archive they are."""
    monkeypatch.delenv("RTGATE_DEBIAN_MIRROR")
    _program(programs, "apt-get", _NO_LISTS.format(state=tmp_path / "lists", update=f"touch {tmp_path}/lists"))
    assert debian.mirror() == "http://one.example/debian"


def test_another_source_that_is_away_is_no_matter(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RTGATE_DEBIAN_MIRROR")
    update = f"touch {tmp_path}/lists; echo 'E: Failed to fetch http://two.example/x' >&2; exit 100"
    _program(programs, "apt-get", _NO_LISTS.format(state=tmp_path / "lists", update=update))
    assert debian.mirror() == "http://one.example/debian"


def test_sources_that_cannot_be_reached_say_so(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RTGATE_DEBIAN_MIRROR")
    update = "echo 'E: Failed to fetch http://one.example/x  Connection refused' >&2; exit 100"
    _program(programs, "apt-get", _NO_LISTS.format(state=tmp_path / "lists", update=update))
    with pytest.raises(InfrastructureError, match=r"^apt-get update failed for the system.*: E: .* refused"):
        debian.mirror()


def test_a_missing_program_names_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match=r"not installed: dpkg-deb \(Debian: apt-get install dpkg\)"):
        debian.contents(tmp_path / "x.deb")


def test_apt_keeps_to_its_own_directory_and_checks_signatures(programs: Path, tmp_path: Path) -> None:
    _program(programs, "apt-get", f'cat "$APT_CONFIG" >{tmp_path}/seen; echo "$@" >>{tmp_path}/seen')
    place = tmp_path / "apt"
    debian.Archive.open(place, ["trixie", "forky", "trixie"], "arm64")
    seen = (tmp_path / "seen").read_text()
    assert "update" in seen
    assert all(str(place) in line for line in seen.splitlines() if line.startswith(("Dir::State", "Dir::Cache")))
    sources = (place / "sources.list").read_text().splitlines()
    assert [line.split("] ")[1] for line in sources] == [
        "http://mirror.example/debian forky main",
        "http://mirror.example/debian trixie main",
    ]
    assert all("signed-by=/usr/share/keyrings/" in line for line in sources)
    assert not any("trusted" in line for line in sources)
    assert stat.S_IMODE((place / "sources.list").stat().st_mode) == 0o600


def test_a_failure_of_apt_is_told_in_its_own_words(programs: Path, tmp_path: Path) -> None:
    _program(programs, "apt-get", "echo 'E: Failed to fetch http://mirror.example/x  Connection refused' >&2; exit 100")
    with pytest.raises(
        InfrastructureError, match=r"apt-get update failed for Debian trixie \(arm64\): E: Failed .*refused"
    ):
        debian.Archive.open(tmp_path / "apt", ["trixie"], "arm64")


def test_versions_come_from_the_suite_that_was_asked_for(programs: Path, tmp_path: Path) -> None:
    _program(
        programs,
        "apt-cache",
        "echo ' rt-tests | 2.10-1 | http://mirror.example/debian forky/main arm64 Packages'\n"
        "echo ' rt-tests | 2.6-1.1 | http://mirror.example/debian trixie/main arm64 Packages'\n"
        "echo '    libc6 | 2.43-7 | http://mirror.example/debian forky/main arm64 Packages'",
    )
    archive = debian.Archive(tmp_path, ("forky", "trixie"), "arm64")
    assert archive.versions({"rt-tests": "trixie"}) == {"rt-tests": ("2.6-1.1",)}
    assert archive.versions({"rt-tests": "forky"}) == {"rt-tests": ("2.10-1",)}
    with pytest.raises(InfrastructureError, match="Debian has no libc6 in trixie for arm64"):
        archive.versions({"libc6": "trixie"})


def test_contents_of_a_package(programs: Path, tmp_path: Path) -> None:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, kind, mode, text in (
            ("./usr", tarfile.DIRTYPE, 0o755, ""),
            ("./usr/bin/tool", tarfile.REGTYPE, 0o4755, "#!"),
            ("./lib/libx.so.1", tarfile.SYMTYPE, 0o777, "libx.so.1.2"),
            ("./lib/libx.so.1.2", tarfile.REGTYPE, 0o600, "lib"),
            ("./usr/bin/again", tarfile.LNKTYPE, 0o755, "./usr/bin/tool"),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.mode = kind, mode
            if kind == tarfile.REGTYPE:
                member.size = len(text)
            else:
                member.linkname = text
            archive.addfile(member, io.BytesIO(text.encode()) if kind == tarfile.REGTYPE else None)
    (tmp_path / "x.tar").write_bytes(raw.getvalue())
    _program(programs, "dpkg-deb", f"cat {tmp_path}/x.tar")
    assert debian.contents(tmp_path / "x.deb") == {
        "usr/bin/tool": debian.Member(stat.S_IFREG | 0o755, b"#!"),
        "usr/bin/again": debian.Member(stat.S_IFREG | 0o755, b"#!"),
        "usr/lib/libx.so.1": debian.Member(stat.S_IFLNK | 0o777, b"libx.so.1.2"),
        "usr/lib/libx.so.1.2": debian.Member(stat.S_IFREG | 0o644, b"lib"),
    }


def test_a_package_that_is_no_archive_is_refused(programs: Path, tmp_path: Path) -> None:
    _program(programs, "dpkg-deb", "echo rubbish")
    with pytest.raises(InfrastructureError, match=r"x\.deb cannot be read"):
        debian.contents(tmp_path / "x.deb")
