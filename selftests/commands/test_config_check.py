# SPDX-License-Identifier: MIT
from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.kernel.conftest import Describe, cache, describe, fake_tree, git, make_series, state, toolchain

from rtgate.errors import ConfigError, InfrastructureError
from rtgate.kernel import kconfig
from rtgate.kernel.build import Listener, Options, build
from rtgate.kernel.config_check import check_config, check_configs
from rtgate.kernel.configuration import BuildDescription, LostOptionsError, load_description, read_config
from rtgate.kernel.configure import configure
from rtgate.kernel.kconfig import scan
from rtgate.kernel.source import open_tree
from rtgate.kernel.work import Work, prepare_work
from rtgate.report import config_table

__all__ = ["cache", "describe", "fake_tree", "git", "toolchain"]

pytestmark = pytest.mark.usefixtures("toolchain")
LOSSY = "CONFIG_EXPERT=y\nCONFIG_NOPE=y\n"
DEVICE_TREE = "--- /dev/null\n+++ b/arch/arm64/boot/dts/rockchip/rk3588-evb1-v10.dts\n@@ -0,0 +1 @@\n+/ {};\n"
BOARD = "targets: [kernel, dtbs]\ndevice_trees: {rockchip/rk3588-evb1-v10: mainline has it in 6.12}\n"


def named(describe: Describe, name: str, fragment: str = "CONFIG_EXPERT=y\n", more: str = "") -> BuildDescription:
    """Write a build beside others, with a fragment of its own."""
    path = describe(more=more).path
    (path.parent / "fragments" / f"{name}.config").write_text(fragment)
    path.with_name(f"{name}.yaml").write_text(path.read_text().replace("[only]", f"[{name}]"))
    return load_description(path.with_name(f"{name}.yaml"))


def test_check_config_compiles_nothing(describe: Describe, fake_tree: Path, cache: Path) -> None:
    tree, before = open_tree(fake_tree), state(fake_tree)
    assert check_config(describe(), tree).lost == ()
    checked = check_config(describe(LOSSY), tree)
    assert checked.requested == 2
    assert [str(option).split(" (asked at")[0] for option in checked.lost] == [
        "CONFIG_NOPE: asked y, found n: this tree has no such symbol"
    ]
    assert not (cache / "builds").exists()
    assert state(fake_tree) == before


def test_all_configurations_are_answered_as_each_alone(describe: Describe, fake_tree: Path) -> None:
    tree = open_tree(fake_tree)
    rt = "CONFIG_EXPERT=y\nCONFIG_PREEMPT_RT=y\nCONFIG_NR_CPUS=4\n"
    builds = [named(describe, "lossy", LOSSY), named(describe, "one"), named(describe, "rt", rt)]
    together = list(check_configs(builds, tree))
    assert together == [check_config(build, tree) for build in builds]
    assert [len(checked.lost) for checked in together] == [1, 0, 1]


def test_an_option_outside_its_versions_is_listed_if_the_tree_has_it(describe: Describe, fake_tree: Path) -> None:
    """Its range may be wrong, and nothing else would say so."""
    newer = "SELECTOR", "HZ_100", "NOPE", "NESTED"  # settable; of a choice; not in this tree; depends on EXPERT
    lines = (f"CONFIG_{name}=y" for name in newer)
    fragment = "\n".join(("#: kernel >= 6.13", *lines, "#: end", ""))
    tree = open_tree(fake_tree)
    checked = check_config(describe(fragment), tree)
    assert ([option.symbol for option in checked.unrequested], checked.lost) == (["SELECTOR"], ())
    line = "CONFIG_SELECTOR: Linux 6.12.7 has it, and it is asked of >= 6.13.0 alone (asked at "
    assert any(row.startswith(line) for row in config_table.lines([checked], tree.version))


@pytest.mark.parametrize(("asked", "found"), [("", "6"), ("CONFIG_NR_CPUS=8\n", "8")])
def test_fragments_of_the_kernel_come_in_their_order_and_before_ours(
    describe: Describe, fake_tree: Path, asked: str, found: str
) -> None:
    configs = fake_tree / "arch" / "arm64" / "configs"
    configs.mkdir(parents=True)
    (configs / "soc.config").write_text("CONFIG_NR_CPUS=4\n")
    (configs / "rt.config").write_text("CONFIG_NR_CPUS=6\n")
    tree = open_tree(fake_tree)
    build = named(describe, "vendor", f"CONFIG_EXPERT=y\n{asked}", "kernel_fragments: [soc.config, rt.config]\n")
    with prepare_work(build, tree, Options()) as work:
        configure(work)
        assert read_config(work.job.build_directory / ".config")["NR_CPUS"] == found
    twin = named(describe, "twin", f"CONFIG_EXPERT=y\n{asked}", "kernel_fragments: [soc.config, rt.config]\n")
    assert [checked.lost for checked in check_configs([build, twin], tree)] == [(), ()]


def test_a_build_that_lost_its_real_time_model_names_the_vendor_s_series(describe: Describe, fake_tree: Path) -> None:
    build_of_vendor = describe("CONFIG_PREEMPT_RT=y\n", "series_commits: {6.12.7: 0123abcd}\n")
    with pytest.raises(LostOptionsError, match=r"option \(PREEMPT_RT comes with an RT series, .* 6\.12\.7 applies"):
        build(build_of_vendor, open_tree(fake_tree), fake_tree.parent / "out")


def test_a_missing_fragment_may_come_with_the_vendor_s_series(describe: Describe, fake_tree: Path) -> None:
    more = "kernel_fragments: [rt.config]\nseries_commits: {6.12.7: 0123abcd}\n"
    (checked,) = check_configs([describe(more=more)], open_tree(fake_tree))
    hint = "(the vendor's series for 6.12.7 applies to commit 0123abcd, and may bring it: --patches)"
    assert checked.unsupported == f"no fragment rt.config {hint}"
    board = f"{BOARD}series_commits: {{6.12.7: 0123abcd}}\n"
    (checked,) = check_configs([describe(more=board)], open_tree(fake_tree))
    assert "series" not in checked.unsupported  # which brings no device tree


def twin_of(build: BuildDescription) -> BuildDescription:
    """Write the same build under another name."""
    path = build.path.with_name("twin.yaml")
    path.write_text(build.path.read_text())
    return load_description(path)


def test_kconfig_answers_equal_questions_once(
    describe: Describe, fake_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def counted_scan(sources: kconfig.Sources) -> kconfig.Definitions:
        calls.append("scan")
        return scan(sources)

    def counted_configure(work: Work) -> None:
        calls.append("configure")
        configure(work)

    monkeypatch.setattr("rtgate.kernel.kconfig.scan", counted_scan)
    monkeypatch.setattr("rtgate.kernel.config_check.configure", counted_configure)
    first, other = named(describe, "first", LOSSY), named(describe, "other", "CONFIG_NOPE=m\n")
    checked = list(check_configs([first, twin_of(first), other], open_tree(fake_tree)))
    assert [len(one.lost) for one in checked] == [1, 1, 1]
    assert checked[0].lost == checked[1].lost
    assert calls == ["configure", "configure", "scan", "configure"]  # the base, then two different questions


def test_a_build_for_a_board_needs_its_device_tree(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    board, tree = named(describe, "board", LOSSY, BOARD), open_tree(fake_tree)
    reason = r"no device tree rockchip/rk3588-evb1-v10\.dts \(mainline has it in 6\.12\)"
    with pytest.raises(ConfigError, match=f"Linux 6.12.7 in .*linux has {reason}, which board needs"):
        build(board, tree, tmp_path / "out")
    (checked,) = check_configs([board], tree)
    assert (checked.requested, checked.lost) == (0, ())
    assert checked.unsupported == "no device tree rockchip/rk3588-evb1-v10.dts (mainline has it in 6.12)"
    source = fake_tree / "arch/arm64/boot/dts/rockchip/rk3588-evb1-v10.dts"
    source.parent.mkdir(parents=True)
    source.touch()
    (checked,) = check_configs([board], tree)
    assert (checked.requested, len(checked.lost), checked.unsupported) == (2, 1, "")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("device_trees: {rockchip/a: anywhere}\n", "the target 'dtbs' is missing"),
        (
            "targets: [kernel, dtbs]\ndevice_trees: {rockchip/a.dtb: anywhere}\n",
            "'rockchip/a.dtb' is not a device tree",
        ),
    ],
)
def test_device_trees_are_read_strictly(describe: Describe, more: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        describe(more=more)


def test_a_kconfig_that_fails_is_a_row_and_its_log_stays(
    describe: Describe, fake_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, builds = open_tree(fake_tree), [named(describe, "one"), named(describe, "board", LOSSY, BOARD)]
    monkeypatch.setenv("FAKE_FAIL", "kconfig")
    checks = list(check_configs([*builds, named(describe, "other")], tree))
    assert [bool(check.unsupported) for check in checks] == [False, True, False]
    assert checks[1].failure == ""
    for check in (checks[0], checks[2]):
        assert "init/Kconfig:3: syntax error" in check.failure
        log = Path(check.failure.rpartition("(log: ")[2].removesuffix(")"))
        assert "syntax error" in log.read_text()
    *_, last = config_table.lines(checks, tree.version)
    assert last.endswith(
        "0 of 3 builds get all their options, 0 do not, 1 are not for this tree, 2 cannot be configured"
    )


def test_a_machine_s_compiler_that_is_too_old_is_said_and_the_log_stays(
    describe: Describe, fake_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    makefile = fake_tree / "Makefile"
    refusal = "*** Sorry, this compiler is not supported."
    makefile.write_text(makefile.read_text().replace("init/Kconfig:3: syntax error", refusal))
    monkeypatch.setenv("FAKE_FAIL", "kconfig")
    with pytest.raises(InfrastructureError, match="needs a newer compiler than this one") as refused:
        check_config(describe(), open_tree(fake_tree))
    log = Path(str(refused.value).rpartition("(log: ")[2].removesuffix(")"))
    assert "this compiler is not supported" in log.read_text()


def test_a_build_that_a_tree_cannot_start_from_stops_no_other(describe: Describe, fake_tree: Path) -> None:
    """A site's build may name a defconfig that this kernel lacks."""
    site_build = replace(named(describe, "site"), base="vendor_defconfig")
    first, second = check_configs([site_build, named(describe, "one")], open_tree(fake_tree))
    assert first.failure.startswith(f"{fake_tree} has no configuration 'vendor_defconfig' (log: ")
    assert (second.requested, second.failure) == (1, "")


def test_a_patch_may_bring_a_device_tree(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    board, tree = named(describe, "board", LOSSY, BOARD), open_tree(fake_tree)
    series = make_series(tmp_path / "series", one=DEVICE_TREE)
    (checked,) = check_configs([board], tree, Options(patches=series))
    assert (checked.unsupported, checked.failure, checked.requested) == ("", "", 2)


def test_a_tree_is_not_copied_for_code_of_ours(describe: Describe, fake_tree: Path, cache: Path) -> None:
    description = replace(named(describe, "irq"), built_in=(fake_tree / "init/main.c",))
    (checked,) = check_configs([description], open_tree(fake_tree))
    assert (checked.requested, checked.failure, checked.description) == (1, "", description)
    assert check_config(description, open_tree(fake_tree)).failure == ""
    assert not (cache / "trees").exists()


PATCH = "--- a/kernel/loop.c\n+++ b/kernel/loop.c\n@@ -1 +1,2 @@\n {}\n+int more;\n"


def test_a_build_s_own_patch_is_tried_on_the_tree_without_a_copy(
    describe: Describe, fake_tree: Path, tmp_path: Path, cache: Path
) -> None:
    (fake_tree / "kernel/loop.c").write_text("int loop;\n")
    make_series(tmp_path / "kernel-configs/mine", one=PATCH.format("int loop;"))
    before = state(fake_tree)
    build = describe(more="patches: mine\n")
    (checked,) = check_configs([build], open_tree(fake_tree))
    assert (checked.unsupported, checked.failure, checked.lost) == ("", "", ())
    assert not (cache / "trees").exists()
    (tmp_path / "kernel-configs/mine/one.patch").write_text(PATCH.format("int other;"))
    (checked,) = check_configs([build], open_tree(fake_tree))
    assert checked.unsupported == "no place for its patch"
    with pytest.raises(ConfigError, match=r"mine/one\.patch: does not apply: kernel/loop\.c"):
        check_config(build, open_tree(fake_tree))
    assert state(fake_tree) == before


def test_a_patch_of_kconfig_is_applied_before_options_are_asked(
    describe: Describe, fake_tree: Path, tmp_path: Path
) -> None:
    end = (fake_tree / "init/Kconfig").read_text().splitlines()
    hunk = f'@@ -{len(end)} +{len(end)},4 @@\n {end[-1]}\n+\n+config BROUGHT\n+\tbool "Brought"\n'
    make_series(tmp_path / "kernel-configs/mine", one=f"--- a/init/Kconfig\n+++ b/init/Kconfig\n{hunk}")
    build = describe("CONFIG_BROUGHT=y\n", more="patches: mine\n")
    assert check_config(build, open_tree(fake_tree)).lost == ()


def test_a_patched_tree_is_called_by_its_own_name(describe: Describe, fake_tree: Path, tmp_path: Path) -> None:
    site_build = replace(named(describe, "site"), base="vendor_defconfig")
    series = make_series(tmp_path / "series", one=DEVICE_TREE)
    with pytest.raises(ConfigError, match=f"^{fake_tree} has no configuration 'vendor_defconfig'"):
        check_config(site_build, open_tree(fake_tree), Options(patches=series))


def test_a_temporary_directory_that_is_full_is_the_machine_s(
    describe: Describe, fake_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "Makefile" / "none"))
    (tmp_path / "Makefile").touch()
    with pytest.raises(InfrastructureError, match=r"cannot write .*: Not a directory"):
        check_config(describe(), open_tree(fake_tree))


def test_the_table_names_what_is_lost_once(describe: Describe, fake_tree: Path) -> None:
    builds = [named(describe, "lossy", LOSSY), named(describe, "one"), named(describe, "board", LOSSY, BOARD)]
    builds.append(twin_of(builds[0]))
    tree, notices = open_tree(fake_tree), list[str]()
    checks = list(check_configs(builds, tree, Options(listener=Listener(notices.append))))
    text = list(config_table.lines(checks, tree.version))
    assert [line.split()[:4] for line in text[:5]] == [
        ["build", "arch", "options", "lost"],
        ["lossy", "arm64", "2", "1"],
        ["one", "arm64", "1", "0"],
        ["board", "arm64", "-", "-"],
        ["twin", "arm64", "2", "1"],
    ]
    assert text[3].endswith("no device tree rockchip/rk3588-evb1-v10.dts (mainline has it in 6.12)")
    assert text[5] == "lossy, twin:"
    assert text[6].startswith("  CONFIG_NOPE: asked y, found n: this tree has no such symbol (asked at ")
    assert text[7:] == ["Linux 6.12.7: 1 of 4 builds get all their options, 2 do not, 1 are not for this tree"]
    assert notices == [f"configuring {name} for Linux 6.12.7" for name in ("lossy", "one", "board", "twin")]
