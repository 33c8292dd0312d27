# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rtgate import site
from rtgate.errors import ConfigError
from rtgate.kernel.configuration import (
    LostOptionsError,
    description_files,
    load_description,
    lost_options,
    parse_config,
    read_config,
)
from rtgate.kernel.fragments import config_line
from rtgate.kernel.kconfig import Sources, scan
from rtgate.kernel.version import KernelVersion

from .conftest import Describe, make_series

SHIPPED = Path(__file__).resolve().parents[3] / "kernel-configs"
BUILDS = sorted(path for path in SHIPPED.glob("*.yaml") if not path.name.endswith(".lock.yaml"))


def test_description(describe: Describe) -> None:
    found = describe("CONFIG_A=y\n#: kernel >= 6.13\nCONFIG_B=y\n#: end\n", "targets: [kernel, modules]\n")
    assert (found.name, found.arch, found.flavour, found.base) == ("fake", "arm64", "generic", "tinyconfig")
    assert found.targets == ("kernel", "modules")
    assert set(found.requested_options(KernelVersion(6, 12))) == {"A"}
    assert set(found.requested_options(KernelVersion(6, 13))) == {"A", "B"}


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (
            "colour: red\n",
            "fake.yaml:5:1: unknown key 'colour' (allowed: arch, base, built_in, cells, device_trees, extends",
        ),
        ("arch: arm64\n", "fake.yaml:5:1: duplicate key 'arch' (first at line 1)"),
        ("targets: [kernel, dtb]\n", "fake.yaml:5:19: unknown value 'dtb' (allowed: dtbs, kernel, modules)"),
        ("targets: [modules]\n", "fake.yaml:5:10: the target 'kernel' is missing"),
        ("targets: [kernel, kernel]\n", "a target stands twice"),
        ("targets: kernel\n", "fake.yaml:5:10: expected a list, found text"),
        ("patches: nowhere\n", "no such file: a patch series is a directory with a file 'series'"),
        ("built_in: [rtgate_nope]\n", "fake.yaml:5:12: unknown value 'rtgate_nope' (allowed: "),
        ("optional: [CONFIG_NOPE]\n", "unknown value 'CONFIG_NOPE' (allowed: CONFIG_EXPERT)"),
        ("kernel_fragments: [rt]\n", "fake.yaml:5:20: 'rt' is not a fragment (expected: NAME.config of the kernel's"),
        ("kernel_fragments: [make:mrproper.config]\n", "'make:mrproper.config' is not a fragment"),
        ("kernel_fragments: [a.config, a.config]\n", "fake.yaml:5:30: the fragment 'a.config' stands twice"),
        ("series_commits: {later: 0123abcd}\n", "fake.yaml:5:18: 'later' is not a kernel version (6.13 or 6.12.117)"),
        ("series_commits: {6.1.0: 0123abcd, '6.1': 0123abcd}\n", "fake.yaml:5:35: the kernel 6.1.0 stands twice"),
        ("series_commits: {6.1.75: 12345678, 6.1.76: 1e5}\n", "fake.yaml:5:44: '1e5' is not a commit"),
        ("series_commits: {6.1.75: v6.1}\n", "fake.yaml:5:26: 'v6.1' is not a commit (expected: 8 to 40 hexadecimal"),
    ],
)
def test_mistakes_name_the_place(describe: Describe, more: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        describe(more=more)
    assert complaint in str(caught.value)


def test_base_must_be_a_configuration_target(describe: Describe) -> None:
    for base in ("clean", "rt.config"):  # a fragment is none
        with pytest.raises(ConfigError, match="not a configuration target"):
            describe(base=base)


def test_a_tree_without_the_kernel_s_own_fragment_is_not_for_the_build(describe: Describe, fake_tree: Path) -> None:
    build = describe(more="kernel_fragments: [soc.config, rt.config]\n")
    assert build.missing_fragments(fake_tree) == ["soc.config", "rt.config"]
    for place, name in (("arch/arm64/configs", "soc.config"), ("kernel/configs", "rt.config")):
        (fake_tree / place).mkdir(parents=True)
        (fake_tree / place / name).write_text("CONFIG_SMP=y\n")
    assert build.missing_fragments(fake_tree) == []
    (fake_tree / "kernel/configs/soc.config").write_text("")
    names = [path.relative_to(fake_tree).parts[0] for path in build.kernel_fragment_files(fake_tree)]
    assert names == ["kernel", "arch", "kernel"]  # of soc.config both, as make takes them


def test_an_error_says_which_commit_a_vendor_s_series_is_for(describe: Describe) -> None:
    build = describe(more="series_commits: {5.10.160: cae91899b67b, 6.1.75: 6f0f65649115}\n")
    known, other = (build.series_base(version) for version in (KernelVersion(5, 10, 160), KernelVersion(5, 10, 110)))
    assert known == "the vendor's series for 5.10.160 applies to commit cae91899b67b"
    assert other == "the vendor's series are for 5.10.160, 6.1.75, none for 5.10.110"
    assert describe().series_base(KernelVersion(6, 1)) == ""


@pytest.fixture
def shipped_fragments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fragments of rtgate: none yet."""
    monkeypatch.setattr(site, "shipped_directory", lambda: tmp_path / "shipped")
    fragments = tmp_path / "shipped/kernel-configs/fragments"
    fragments.mkdir(parents=True)
    return fragments


def test_unknown_fragment_lists_those_there_are(shipped_fragments: Path, describe: Describe) -> None:
    path = describe().path
    path.write_text("arch: arm64\nflavour: generic\nbase: tinyconfig\nfragments:\n  - nope\n")
    (shipped_fragments / "extra.config").write_text("CONFIG_A=y\n")
    with pytest.raises(ConfigError, match=r"fake.yaml:5:5: no fragment 'nope' \(allowed: extra, only\)"):
        load_description(path)


def test_a_site_may_use_fragments_of_other_directories(shipped_fragments: Path, describe: Describe) -> None:
    path = describe("CONFIG_A=y\n").path
    (shipped_fragments / "only.config").write_text("CONFIG_A=m\n")  # its own one wins
    (shipped_fragments / "extra.config").write_text("CONFIG_B=y\n")
    path.write_text(path.read_text().replace("[only]", "[only, extra]"))
    asked = load_description(path).requested_options(KernelVersion(6, 12))
    assert {symbol: option.value for symbol, option in asked.items()} == {"A": "y", "B": "y"}


def test_a_build_that_extends_another_one_has_its_own_keys_and_the_rest(
    shipped_fragments: Path, describe: Describe
) -> None:
    """Also where the other one lies elsewhere: its fragments and patches are those beside it."""
    (shipped_fragments / "only.config").write_text("CONFIG_A=y\n")
    series = shipped_fragments.with_name("series")
    make_series(series, one="")
    text = "arch: arm64\nflavour: generic\nbase: tinyconfig\nfragments: [only]\ntargets: [kernel, dtbs]\n"
    shipped_fragments.with_name("other.yaml").write_text(f"{text}patches: series\n")
    path = describe("CONFIG_B=y\n").path
    path.write_text("extends: other\ntargets: [kernel]\n")
    build = load_description(path)
    assert (build.name, build.arch, build.targets, build.patches) == ("fake", "arm64", ("kernel",), series)
    assert [option.symbol for option in build.options] == ["A"]


def test_a_site_extends_the_shipped_build_of_the_same_name(
    shipped_fragments: Path, describe: Describe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shipped_fragments / "only.config").write_text("CONFIG_A=y\n")
    text = "arch: arm64\nflavour: generic\nbase: tinyconfig\nfragments: [only]\n"
    shipped_fragments.with_name("other.yaml").write_text(text)
    own = tmp_path / "site" / "kernel-configs" / "other.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("extends: other\ntargets: [kernel]\n")
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "site"))
    build = load_description(own)
    assert (build.targets, [option.symbol for option in build.options]) == (("kernel",), ["A"])


def test_what_may_be_lost_goes_with_the_fragments_that_a_build_replaces(
    shipped_fragments: Path, describe: Describe
) -> None:
    (shipped_fragments / "only.config").write_text("CONFIG_A=y\n")
    (shipped_fragments / "own.config").write_text("CONFIG_B=y\n")
    text = "arch: arm64\nflavour: generic\nbase: tinyconfig\nfragments: [only]\noptional: [CONFIG_A]\n"
    shipped_fragments.with_name("other.yaml").write_text(text)
    path = describe("CONFIG_B=y\n").path
    path.write_text("extends: other\n")
    assert load_description(path).optional == {"A"}
    path.write_text("extends: other\nfragments: [own]\n")
    assert load_description(path).optional == frozenset()
    path.write_text("extends: other\nfragments: [own]\noptional: [CONFIG_A]\n")
    with pytest.raises(ConfigError, match=r"fake\.yaml:3:12: unknown value 'CONFIG_A'"):
        load_description(path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("extends: nope\n", "mine.yaml:1:10: unknown name 'nope' in kernel-configs"),
        ("extends: mine\n", "mine.yaml:1:10: the build extends itself by way of 'mine'"),
        ("extends: fake\ncolour: red\n", "mine.yaml:2:1: unknown key 'colour'"),
    ],
)
def test_what_a_build_extends_is_checked(describe: Describe, text: str, complaint: str) -> None:
    path = describe().path.with_name("mine.yaml")
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_description(path)
    assert complaint in str(caught.value)


def test_lost_options_are_named_with_reasons(describe: Describe, fake_tree: Path) -> None:
    description = describe("CONFIG_PREEMPT_RT=y\nCONFIG_NOPE=y\nCONFIG_NR_CPUS=8\n# CONFIG_TINY is not set\n")
    asked = description.requested_options(KernelVersion(6, 12))
    config = {"NR_CPUS": "4", "EXPERT": "y"}
    lost = lost_options(asked, frozenset({"NOPE"}), config, lambda: scan(Sources(fake_tree, "arm64")))
    text = str(LostOptionsError(lost, fake_tree))
    assert "did not take 2 requested options" in text
    assert "CONFIG_PREEMPT_RT: asked y, found n: init/Kconfig:9: depends on EXPERT && ARCH_SUPPORTS_RT" in text
    assert "CONFIG_NR_CPUS: asked 8, found 4" in text
    assert "only.config:3:1" in text


def test_nothing_is_lost(describe: Describe, fake_tree: Path) -> None:
    asked = describe("CONFIG_A=y\n# CONFIG_B is not set\n").requested_options(KernelVersion(6, 12))
    assert lost_options(asked, frozenset(), {"A": "y"}, lambda: scan(Sources(fake_tree, "arm64"))) == ()


def test_unreadable_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_config(tmp_path / ".config")


symbols = st.from_regex(r"[A-Z][A-Z0-9_]{0,20}", fullmatch=True)
values = st.one_of(st.sampled_from(["y", "m", "n", "0x1F", '"a=b # c"']), st.integers(-9, 10**6).map(str))


@given(st.dictionaries(symbols, values))
def test_config_is_read_as_kconfig_writes_it(options: dict[str, str]) -> None:
    lines = [config_line(symbol, value) for symbol, value in options.items()]
    text = "\n".join(["#", "# Automatically generated file; DO NOT EDIT.", "#", *lines, "# end of General setup", ""])
    assert parse_config(text) == options


@given(st.text(max_size=200))
def test_any_text_is_a_config(text: str) -> None:
    parse_config(text)


@pytest.mark.parametrize("path", BUILDS, ids=lambda path: path.stem)
def test_shipped_builds_are_valid(path: Path) -> None:
    found = load_description(path)
    # Builds of virtual boards are named by architecture, those of real ones by SoC and flavour.
    assert found.arch in found.name or found.name.endswith(f"-{found.flavour}")
    for version in (KernelVersion(6, 1), KernelVersion(6, 12, 117), KernelVersion(7, 2)):
        asked = found.requested_options(version)
        assert (asked["PREEMPT_RT"].value == "y") == (found.flavour in {"preempt_rt", "jailhouse"})


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*-generic.yaml")), ids=lambda path: path.stem)
def test_flavours_differ_in_the_preemption_model_alone_or_by_the_vendor_s_fragment(path: Path) -> None:
    generic = load_description(path)
    realtime = load_description(path.with_name(path.name.replace("-generic", "-preempt_rt")))
    assert (realtime.flavour, generic.flavour) == ("preempt_rt", "generic")
    assert (realtime.targets, realtime.device_trees) == (generic.targets, generic.device_trees)
    assert _fragments(realtime.path) == [re.sub(r"preempt$", "preempt_rt", name) for name in _fragments(generic.path)]
    added = ("rockchip_rt.config",) if "-vendor-" in generic.name else ()
    assert realtime.kernel_fragments == (*generic.kernel_fragments, *added)


def test_all_shipped_fragments_are_used() -> None:
    used = {name for path in BUILDS for name in _fragments(path)}
    assert used == {path.stem for path in (SHIPPED / "fragments").glob("*.config")}


def _fragments(build: Path) -> list[str]:
    files = (yaml.safe_load(path.read_text()) for path in description_files(build))
    names: list[str] = next(data["fragments"] for data in files if "fragments" in data)
    return names
