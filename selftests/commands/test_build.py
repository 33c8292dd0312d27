# SPDX-License-Identifier: MIT
"""Builds of a small tree by tuxmake and make, with stand-ins of the compilers: a second of CPU time each."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tarfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from selftests.unit.kernel.conftest import (
    Describe,
    Git,
    cache,
    describe,
    fake_tree,
    git,
    make_series,
    state,
    toolchain,
)

from rtgate.errors import BuildError, ConfigError, InfrastructureError, Interrupted
from rtgate.files import scratch
from rtgate.kernel import artefacts
from rtgate.kernel.artefacts import KernelBuild
from rtgate.kernel.build import Listener, Options, build, build_by_content, in_place
from rtgate.kernel.checkout import checkout
from rtgate.kernel.configuration import BuildDescription, LostOptionsError, load_description
from rtgate.kernel.source import Tree, open_tree

__all__ = ["cache", "describe", "fake_tree", "git", "toolchain"]

pytestmark = pytest.mark.usefixtures("toolchain")
ADD = "--- /dev/null\n+++ b/init/extra.c\n@@ -0,0 +1 @@\n+int extra;\n"


class Recorder:
    """Remembers what a build told."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.files: list[str] = []
        self.totals: list[int | None] = []

    def progress(self, _done: int, total: int | None, file: str) -> None:
        self.files.append(file)
        self.totals.append(total)

    @property
    def options(self) -> Options:
        return Options(listener=Listener(self.notices.append, self.progress))


def stored(output: Path) -> dict[str, object]:
    loaded: dict[str, object] = json.loads((output / "build.json").read_text())
    return loaded


_LONG = pytest.mark.long("one more build by a stand-in of make; others are in make test")


def test_a_build_that_is_not_trusted_leaves_nothing_for_the_next_one(
    describe: Describe, fake_tree: Path, tmp_path: Path, cache: Path
) -> None:
    made = build(describe(), open_tree(fake_tree), tmp_path / "out", Options(trusted=False))
    assert made.image.is_file()
    assert not [path for path in (cache / "builds").glob("*") if path.is_dir() and not path.name.endswith(".log")]
    assert not [path for path in (cache / "ccache").rglob("*") if path.is_file()]
    build(describe(), open_tree(fake_tree), tmp_path / "other", Options())  # what it is compared with keeps its own
    assert [path for path in (cache / "builds").glob("*") if path.is_dir() and not path.name.endswith(".log")]


def test_build(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    before = state(fake_tree)
    seen = Recorder()
    description = describe(more="targets: [kernel, modules]\n")
    made = build(description, open_tree(fake_tree), tmp_path / "out", seen.options)
    assert state(fake_tree) == before
    assert (made.provenance, made.name, made.arch, made.flavour) == ("rtgate", "fake", "arm64", "generic")
    assert made.release == "6.12.7"
    assert made.modules is not None
    names = {"build.json", "build.log", "Image", "config", "System.map", "vmlinux", "modules.tar.xz"}
    assert {path.name for path in made.directory.iterdir()} == names
    assert sorted(seen.files[:2]) == ["init/main.c", "kernel/sched.c"]
    assert seen.files[2:] == ["vmlinux", "arch/arm64/boot/Image"]
    assert seen.totals == [1330] * 4
    found = stored(made.directory)
    assert found["command"] == ["rtgate", "build", str(description.path), "--tree", str(fake_tree)]
    assert found["ccache"] == {"hits": 0, "misses": 2}
    assert [path.name for path in tmp_path.glob(".rtgate-build-*")] == []


def test_the_command_names_a_site_s_build_and_its_site(
    describe: Describe, fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    description, tree = describe(), ["--tree", str(fake_tree)]
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path))
    environment = ["env", f"RTGATE_SITE={tmp_path}"]
    made = build(description, open_tree(fake_tree), tmp_path / "out")
    assert stored(made.directory)["command"] == [*environment, "rtgate", "build", "fake", *tree]
    other = tmp_path / "other" / "fake.yaml"  # the site's own has this name
    shutil.copytree(description.path.parent, other.parent)
    made = build(load_description(other), open_tree(fake_tree), tmp_path / "second")
    assert stored(made.directory)["command"] == [*environment, "rtgate", "build", str(other), *tree]


def test_the_command_names_the_path_of_a_kernel_repository_s_build(
    describe: Describe, fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is found only from there."""
    own = tmp_path / "linux" / ".rtgate" / "kernel-configs" / "fake.yaml"
    shutil.copytree(describe().path.parent, own.parent)
    monkeypatch.chdir(tmp_path / "linux")
    made = build(load_description(own), open_tree(fake_tree), tmp_path / "out")
    assert stored(made.directory)["command"] == ["rtgate", "build", str(own), "--tree", str(fake_tree)]


@pytest.mark.parametrize(
    ("name", "text", "refused"),
    [
        ("kernel/sched.c", "int saved_meanwhile;\n", True),
        ("kernel/new.c", "int new;\n", True),
        ("x.log", "CC a.o\n", False),
    ],
)
def test_a_tree_that_is_edited_while_it_is_built_makes_no_kernel(
    describe: Describe, fake_tree: Path, tmp_path: Path, git: Git, name: str, text: str, *, refused: bool
) -> None:
    """But a log, or another build, may be written into it, and what was built may be committed."""

    def save(_count: int, _total: int | None, _file: str) -> None:
        (fake_tree / name).write_text(text)

    tree, options = open_tree(fake_tree), Options(listener=Listener(progress=save))
    if not refused:
        build(describe(), tree, tmp_path / "out", options)
        return
    with pytest.raises(ConfigError, match="was changed while it was built: build again"):
        build(describe(), tree, tmp_path / "out", options)
    assert not (tmp_path / "out").exists()
    seen = Recorder()
    build(describe(), open_tree(fake_tree), tmp_path / "out", seen.options)
    assert not any("nothing changed" in notice or "half-way" in notice for notice in seen.notices)


def test_nothing_changed(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    first = build(describe(), open_tree(fake_tree), tmp_path / "out")
    seen = Recorder()
    assert build(describe(), open_tree(fake_tree), tmp_path / "out", seen.options) == first
    other = build(describe(), open_tree(fake_tree), tmp_path / "other", seen.options)
    assert other.image_sha256 == first.image_sha256
    assert seen.files == []
    assert [notice.split(":")[0] for notice in seen.notices] == ["nothing changed", "nothing changed"]


@_LONG
def test_a_damaged_build_is_made_again(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    first = build(describe(), open_tree(fake_tree), tmp_path / "out")
    first.image.write_bytes(b"damaged")
    assert build(describe(), open_tree(fake_tree), tmp_path / "out").image_sha256 == first.image_sha256


def test_only_what_changed_is_compiled(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    first = build(describe(), open_tree(fake_tree), tmp_path / "out")
    (fake_tree / "kernel/sched.c").write_text("int changed;\n")
    seen = Recorder()
    second = build(describe(), open_tree(fake_tree), tmp_path / "out", seen.options)
    assert second.image_sha256 != first.image_sha256
    assert seen.files == ["kernel/sched.c", "vmlinux", "arch/arm64/boot/Image"]
    assert seen.totals == [None] * 3
    assert seen.notices == []  # not configured again


@_LONG
def test_a_changed_fragment_or_kconfig_configures_again(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    build(describe(), open_tree(fake_tree), tmp_path / "out")
    seen = Recorder()
    build(describe("CONFIG_NR_CPUS=4\n"), open_tree(fake_tree), tmp_path / "out", seen.options)
    assert "CONFIG_EXPERT" not in (tmp_path / "out/config").read_text()
    kconfig = fake_tree / "init/Kconfig"
    kconfig.write_text(kconfig.read_text().replace("config NR_CPUS\n", "config NR_OF_CPUS\n"))
    with pytest.raises(LostOptionsError, match="CONFIG_NR_CPUS: asked 4, found n: this tree has no such symbol"):
        build(describe("CONFIG_NR_CPUS=4\n"), open_tree(fake_tree), tmp_path / "out", seen.options)
    assert len(seen.notices) == 2


@_LONG
def test_the_second_full_build_knows_its_length(
    describe: Describe, fake_tree: Path, tmp_path: Path, cache: Path
) -> None:
    build(describe(), open_tree(fake_tree), tmp_path / "out")
    shutil.rmtree(cache / "builds")
    seen = Recorder()
    (fake_tree / "init/main.c").write_text("int changed;\n")
    build(describe(), open_tree(fake_tree), tmp_path / "out", seen.options)
    assert seen.totals == [4] * 4


def test_patched_build(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    before = state(fake_tree)
    options = Options(patches=make_series(tmp_path / "p", one=ADD))
    plain = build(describe(), open_tree(fake_tree), tmp_path / "plain")
    patched = build(describe(), open_tree(fake_tree), tmp_path / "patched", options)
    assert patched.image_sha256 != plain.image_sha256
    assert state(fake_tree) == before
    found = stored(patched.directory)
    assert [patch["file"] for patch in found["patches"]] == ["one.patch"]  # type: ignore[attr-defined]
    words = ["--tree", str(fake_tree), "--patches", str(tmp_path / "p")]
    assert found["command"] == ["rtgate", "build", str(describe().path), *words]


def test_a_clone_is_built_with_patches(describe: Describe, fake_tree: Path, git: Git, tmp_path: Path) -> None:
    """What is built is a copy without a repository, in which git would compare nothing."""
    options = Options(patches=make_series(tmp_path / "p", one=ADD))
    made = build(describe(), open_tree(fake_tree), tmp_path / "out", options)
    assert made.source is not None
    assert made.source["commit"] == git("rev-parse", "HEAD")


@_LONG
def test_relative_paths(describe: Describe, fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RTGATE_CACHE", "here")
    options = Options(patches=make_series(tmp_path / "p", one=ADD))
    assert build(describe(), open_tree(Path(fake_tree.name)), Path("out"), options).image == tmp_path / "out/Image"


@_LONG
def test_git_state_is_recorded(describe: Describe, fake_tree: Path, git: Git, tmp_path: Path) -> None:
    made = build(describe(), open_tree(fake_tree), tmp_path / "out")
    assert made.source is not None
    assert (made.source["commit"], made.source["dirty"]) == (git("rev-parse", "HEAD"), False)
    assert stored(made.directory)["warnings"] == []
    (fake_tree / "kernel/sched.c").write_text("int changed;\n")
    made = build(describe(), open_tree(fake_tree), tmp_path / "out")
    assert stored(made.directory)["warnings"] == ["the tree has changes that are not committed"]


def test_lost_options(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    description = describe("CONFIG_EXPERT=y\nCONFIG_PREEMPT_RT=y\n")
    with pytest.raises(LostOptionsError, match=r"CONFIG_PREEMPT_RT: asked y, found n: .*ARCH_SUPPORTS_RT=n") as caught:
        build(description, open_tree(fake_tree), tmp_path / "out")
    assert [lost.option.symbol for lost in caught.value.lost] == ["PREEMPT_RT"]
    assert not (tmp_path / "out").exists()
    optional = describe("CONFIG_EXPERT=y\nCONFIG_PREEMPT_RT=y\n", "optional: [CONFIG_PREEMPT_RT]\n")
    build(optional, open_tree(fake_tree), tmp_path / "out")


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("link", (BuildError, "undefined reference to `missing'")),
        pytest.param("disk", (InfrastructureError, "the disk is full"), marks=_LONG),
        pytest.param("kconfig", (BuildError, "init/Kconfig:3: syntax error"), marks=_LONG),
    ],
)
def test_faults(
    describe: Describe,
    fake_tree: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    expected: tuple[type[Exception], str],
) -> None:
    error, message = expected
    monkeypatch.setenv("FAKE_FAIL", fault)
    with pytest.raises(error, match=message) as caught:
        build(describe(), open_tree(fake_tree), tmp_path / "out")
    assert Path(str(caught.value).split("(log: ")[1].rstrip(")")).is_file()
    assert not (tmp_path / "out").exists()
    monkeypatch.delenv("FAKE_FAIL")
    build(describe(), open_tree(fake_tree), tmp_path / "out")


def _in_place(description: BuildDescription, tree: Tree, output: Path) -> None:
    with in_place(description, tree, Options()):
        output.mkdir()


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("requested.config", build),
        pytest.param("requested.config", build_by_content, marks=_LONG),
        pytest.param("requested.config", _in_place, marks=_LONG),
        pytest.param("config.log", build, marks=_LONG),
        pytest.param("build.log", build, marks=_LONG),
    ],
)
def test_a_disk_that_is_full_is_the_machine_s(
    name: str,
    action: Callable[[BuildDescription, Tree, Path], object],
    describe: Describe,
    fake_tree: Path,
    cache: Path,
    tmp_path: Path,
) -> None:
    build(describe(), open_tree(fake_tree), tmp_path / "out")
    (file,) = (cache / "builds").glob(f"*.log/{name}")
    file.unlink()
    file.symlink_to("/dev/full")
    description = describe("CONFIG_EXPERT=y\nCONFIG_MODULES=y\n")
    with pytest.raises(InfrastructureError, match="No space left on device: make room"):
        action(description, open_tree(fake_tree), tmp_path / "other")
    file.unlink()
    action(description, open_tree(fake_tree), tmp_path / "other")


def test_what_the_listener_s_reader_left_is_no_matter_of_the_disk(
    describe: Describe, fake_tree: Path, tmp_path: Path
) -> None:
    def tell(_: str) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        build(describe(), open_tree(fake_tree), tmp_path / "out", Options(listener=Listener(tell)))


@_LONG
def test_an_error_beside_a_build_in_place_is_not_the_build_s(describe: Describe, fake_tree: Path) -> None:
    with pytest.raises(FileNotFoundError), in_place(describe(), open_tree(fake_tree), Options()):
        raise FileNotFoundError


def test_a_kernel_that_does_not_compile(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    good = build(describe(), open_tree(fake_tree), tmp_path / "out")
    (fake_tree / "kernel/sched.c").write_text("int good;\n\nSYNTAX ERROR\n")
    with pytest.raises(BuildError, match=r"^kernel/sched.c:3:1: error: expected ';' before 'SYNTAX' \(log: "):
        build(describe(), open_tree(fake_tree), tmp_path / "out")
    assert good.image.is_file()  # the former build stays


def test_unknown_base(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no configuration 'nope_defconfig'"):
        build(describe(base="nope_defconfig"), open_tree(fake_tree), tmp_path / "out")


def test_ctrl_c_leaves_nothing(
    describe: Describe, fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAIL", "slow")

    def interrupt(_done: int, _total: int | None, file: str) -> None:
        if file == "slowly":
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        build(describe(), open_tree(fake_tree), tmp_path / "out", Options(listener=Listener(progress=interrupt)))
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == []
    monkeypatch.delenv("FAKE_FAIL")
    build(describe(), open_tree(fake_tree), tmp_path / "out")


def test_a_build_tidies_what_one_that_was_killed_has_left(
    describe: Describe, fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    seen: list[Path] = []

    def look(_done: int, _total: int | None, _file: str) -> None:
        seen.extend(temporary.iterdir())

    build(describe(), open_tree(fake_tree), tmp_path / "out", Options(listener=Listener(progress=look)))
    assert seen
    for text in ("", "int changed;\n"):  # nothing is made; something is
        seen[0].mkdir()  # as SIGKILL leaves it
        if text:
            (fake_tree / "kernel/sched.c").write_text(text)
        build(describe(), open_tree(fake_tree), tmp_path / "out")
        assert list(temporary.iterdir()) == []


@_LONG
def test_a_build_that_was_killed_is_begun_anew(
    describe: Describe, fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that were half written would pass for whole ones: they are newer than what they are made of."""
    monkeypatch.setenv("FAKE_FAIL", "slow")
    half: list[Path] = []

    def killed(_done: int, _total: int | None, file: str) -> None:
        if file == "slowly":
            half.extend(path.with_name("vmlinux") for path in tmp_path.glob("**/.config"))
            half[0].write_bytes(b"half a fi")
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        build(describe(), open_tree(fake_tree), tmp_path / "out", Options(listener=Listener(progress=killed)))
    monkeypatch.delenv("FAKE_FAIL")
    for expected in (["the last build here was stopped half-way: its directory is made anew"], []):
        seen = Recorder()
        build(describe(), open_tree(fake_tree), tmp_path / "out", seen.options)
        assert half[0].read_bytes() != b"half a fi"
        assert [notice for notice in seen.notices if "anew" in notice] == expected


def test_a_build_that_fails_keeps_what_it_made(
    describe: Describe, fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAIL", "link")
    with pytest.raises(BuildError):
        build(describe(), open_tree(fake_tree), tmp_path / "out")
    monkeypatch.delenv("FAKE_FAIL")
    seen = Recorder()
    build(describe(), open_tree(fake_tree), tmp_path / "out", seen.options)
    assert seen.files == ["vmlinux", "arch/arm64/boot/Image"]


@pytest.mark.parametrize(
    "output", ["out", pytest.param("other", marks=_LONG)]
)  # the same output, and the same build directory
def test_one_build_at_a_time_and_the_other_says_for_whom_it_waits(
    describe: Describe, fake_tree: Path, tmp_path: Path, output: str
) -> None:
    tree, description = open_tree(fake_tree), describe()
    waits = threading.Event()
    second = Recorder()

    def begin(_notice: str) -> None:
        if not others:
            others.append(pool.submit(build, description, tree, tmp_path / output, told))
            assert waits.wait(20)

    def notice(text: str) -> None:
        second.notices.append(text)
        waits.set()

    others: list[Future[KernelBuild]] = []
    told = Options(listener=Listener(notice=notice))
    with ThreadPoolExecutor(1) as pool:
        first = build(description, tree, tmp_path / "out", Options(listener=Listener(notice=begin)))
        assert others[0].result().image_sha256 == first.image_sha256
    assert second.notices[0].startswith(f"waiting for another rtgate (process {os.getpid()}) that builds in ")
    assert second.notices[1].startswith("nothing changed")


def test_a_directory_named_by_content_is_written_once(
    describe: Describe, fake_tree: Path, git: Git, tmp_path: Path
) -> None:
    made = []
    for text in ("int first;\n", "int second;\n", "int first;\n"):
        (fake_tree / "kernel/sched.c").write_text(text)
        git("commit", "--quiet", "--all", "--message=more", "--allow-empty")
        with checkout(fake_tree, "HEAD", "candidate") as tree:
            made.append(build_by_content(describe(), tree, tmp_path / "build" / "fake"))
    first = made[0].directory
    assert first.name == f"fake-{made[0].inputs[:12]}" if made[0].inputs else False
    assert len({one.directory for one in made}) == 3  # of three commits, whatever they hold
    assert [artefacts.load(one.directory).image_sha256 for one in made] == [one.image_sha256 for one in made]
    before = state(first)
    commit = git("rev-parse", "HEAD~2")
    *_, check_out, again = str(stored(first)["command"][2]).split(" && ")  # type: ignore[index]
    assert check_out == f"git -C linux-{commit[:12]} checkout --quiet --detach {commit}"
    assert again == f"rtgate build {describe().path} --tree linux-{commit[:12]}"  # fake_tree is at another commit
    with checkout(fake_tree, "HEAD~2", "candidate") as tree:
        assert build_by_content(describe(), tree, tmp_path / "build" / "fake").directory == first
    assert state(first) == before


def test_what_a_killed_build_left_beside_its_output_is_removed(
    describe: Describe, fake_tree: Path, tmp_path: Path
) -> None:
    (tmp_path / ".rtgate-build-killed" / "new").mkdir(parents=True)
    with scratch(tmp_path, ".rtgate-build-") as held:
        assert not (tmp_path / ".rtgate-build-killed").exists()
        build(describe(), open_tree(fake_tree), tmp_path / "out")
        assert list(tmp_path.glob(".rtgate-build-*")) == [held]  # somebody else's, who lives
    assert not held.exists()


def test_missing_compiler(describe: Describe, fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match="gcc-aarch64-linux-gnu"):
        build(describe(), open_tree(fake_tree), tmp_path / "out")


def test_device_trees_of_a_kernel_whose_top_makefile_does_not_install_them(
    describe: Describe, fake_tree: Path, tmp_path: Path
) -> None:
    """As before 4.20: tuxmake has a target of its own for such kernels."""
    sources = fake_tree / "arch/arm64/boot/dts/rockchip"
    sources.mkdir(parents=True)
    (sources / "board.dts").write_text("/dts-v1/;\n")
    into = "$(O)/arch/arm64/boot/dts/rockchip"
    makes = f"\t@mkdir -p {into}\n\t@echo $(DTC_FLAGS) >{into}/board.dtb\n"
    (fake_tree / "arch/arm64/Makefile").write_text(f"dtbs:\n{makes}")
    with (fake_tree / "Makefile").open("a") as makefile:
        makefile.write("\ninclude arch/arm64/Makefile\n")
    found = build(describe(more="targets: [kernel, dtbs]\n"), open_tree(fake_tree), tmp_path / "out").dtbs
    assert found is not None
    with tarfile.open(found) as archive:
        (member,) = (one for one in archive if one.name.endswith(".dtb"))
        content = archive.extractfile(member)
        assert content is not None
        assert (member.name, content.read()) == ("dtbs/rockchip/board.dtb", b"-@\n")  # with symbols, for overlays


def test_a_build_says_what_the_kernel_s_own_fragments_did_not_get(describe: Describe, fake_tree: Path) -> None:
    configs = fake_tree / "arch/arm64/configs"
    configs.mkdir(parents=True)
    (configs / "rt.config").write_text("CONFIG_NOPE=y \nCONFIG_NR_CPUS=4\n# CONFIG_MODULES is not set\n# a comment\n")
    recorder = Recorder()
    description = describe("CONFIG_NR_CPUS=8\n", "kernel_fragments: [rt.config]\n")
    build(description, open_tree(fake_tree), fake_tree.parent / "out", recorder.options)
    (notice,) = [text for text in recorder.notices if "own fragments" in text]
    assert notice == "not as the kernel's own fragments ask: CONFIG_NOPE (asked y, found n)"
