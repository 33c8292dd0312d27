# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate import site
from rtgate.errors import ConfigError
from rtgate.lava.job import template

GOOD = """\
description: a way
root: ram
files: {required: [kernel], optional: [dtb]}
deploy:
  to: tftp
  timeout: {minutes: 2}
  kernel: {url: "{{ kernel }}", type: image}
  dtb: {url: "{{ dtb }}"}
  images: [{url: "{{ dtb }}"}, {url: "a-{{kernel}}", compression: "{{ dtb_compression }}"}]
  overlay: "{{ overlay }}"
boot: {method: u-boot, timeout: {seconds: 30}}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "way.yaml"


def test_a_template_is_filled(path: Path) -> None:
    path.write_text(GOOD)
    found = template.read(path)
    assert (found.name, found.root, found.required, found.optional) == ("way", "ram", ("kernel",), ("dtb",))
    assert found.seconds() == 150
    usual = {"action": {"minutes": 2}, "actions": {"power-off": {"seconds": 30}}, "connection": {"minutes": 2}}
    assert found.timeouts() == usual
    assert found.boot({}) == {"method": "u-boot", "timeout": {"seconds": 30}}
    values = {"kernel": "K", "dtb": None, "dtb_compression": None, "overlay": True}
    assert found.deploy(values) == {
        "to": "tftp",
        "timeout": {"minutes": 2},
        "kernel": {"url": "K", "type": "image"},
        "images": [{"url": "a-K"}],
        "overlay": True,
    }


def test_a_template_has_its_own_timeouts_where_it_says_so(path: Path) -> None:
    path.write_text(GOOD + "timeouts: {connection: {minutes: 5}, actions: {uboot-action: {minutes: 3}}}\n")
    assert template.read(path).timeouts() == {
        "action": {"minutes": 2},
        "actions": {"power-off": {"seconds": 30}, "uboot-action": {"minutes": 3}},
        "connection": {"minutes": 5},
    }
    path.write_text(GOOD + "timeouts: {action: {minutes: 1}, actions: {power-off: {minutes: 1}}}\n")
    made = template.read(path).timeouts()
    assert (made["action"], made["actions"]) == ({"minutes": 1}, {"power-off": {"minutes": 1}})


def test_what_is_filled_in_cannot_change_the_structure(path: Path) -> None:
    path.write_text(GOOD)
    hostile = 'x"}\nboot: {method: minimal'
    filled = template.read(path).deploy(
        {"kernel": hostile, "dtb": "{{ kernel }}", "dtb_compression": "gz", "overlay": 1}
    )
    assert filled["kernel"] == {"url": hostile, "type": "image"}
    assert filled["dtb"] == {"url": "{{ kernel }}"}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("{{ dtb }}", "{{ dbt }}", r"way.yaml:8:14: unknown placeholder 'dbt' \(allowed: dtb, dtb_compression, kernel"),
        ("timeout: {seconds: 30}", "x: 1", "way.yaml:11:7: missing key 'timeout'"),
        ("{seconds: 30}", "{seconds: 30, minutes: 1}", "a timeout has one unit"),
        ("{seconds: 30}", "{seconds: 0}", "0 is out of range"),
        (
            "{seconds: 30}",
            "{minutes: 1}, timeouts: {auto-login-action: {seconds: 30}}",
            ":11:77: LAVA takes 30 s of a part as not set",
        ),
        ("boot: {", "timeouts: 5\nboot: {", r"way.yaml:11:11: expected a mapping"),
        ("boot: {", "timeouts: {actions: 5}\nboot: {", r"way.yaml:11:21: expected a mapping"),
        ("root: ram", "root: rom", "unknown value 'rom'"),
        ("[kernel]", "[kernle]", "unknown value 'kernle'"),
        ("description: a way\n", "", "missing key 'description'"),
        ("boot: {method: u-boot, timeout", "boot: {method: '{{ serial }}', timeout", "unknown placeholder 'serial'"),
    ],
)
def test_mistakes_are_told_with_their_place(path: Path, before: str, after: str, message: str) -> None:
    path.write_text(GOOD.replace(before, after))
    with pytest.raises(ConfigError, match=message):
        template.read(path)


@pytest.mark.parametrize("name", site.names(template.KIND))
def test_the_shipped_templates_are_right(name: str) -> None:
    found = template.find(name)
    assert "kernel" in found.required
    assert found.seconds() >= 300
    assert "failure_retry" not in found.boot(dict.fromkeys(template.placeholders(template.FILES), "x"))


@pytest.mark.parametrize(
    ("root", "boot", "possible"),
    [("ram", "", True), ("disk", "", False), ("disk", ", transfer_overlay: {download_command: wget}", True)],
)
def test_lava_s_shell_gets_on_a_disk_only_if_the_way_takes_it_there(
    path: Path, root: str, boot: str, *, possible: bool
) -> None:
    way = GOOD.replace("root: ram", f"root: {root}")
    path.write_text(way.replace("timeout: {seconds: 30}", f"timeout: {{seconds: 30}}{boot}"))
    assert (not template.read(path).why_no_test_shell) is possible


def test_a_site_s_template_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lava-jobs").mkdir()
    (tmp_path / "lava-jobs" / "uboot-ramdisk.yaml").write_text(GOOD)
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path))
    assert template.find("uboot-ramdisk").path.parent.parent == tmp_path
    with pytest.raises(ConfigError, match="unknown name 'carrier-pigeon' in lava-jobs"):
        template.find("carrier-pigeon")
