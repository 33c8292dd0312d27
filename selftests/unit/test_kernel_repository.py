# SPDX-License-Identifier: MIT
"""The repository whose changes `bench/merge_requests.py` has reviewed."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from bench import kernel_repository, review_cases
from bench.kernel_repository import KernelRepository

TEMPLATE = "ci/gitlab/rtgate.yml"
SOURCE = {
    "kernel/time/hrtimer.c": "#include <linux/cpu.h>\n\tstruct task_struct *task = t->task;\n",
    "init/main.c": "\twait_for_completion(&kthreadd_done);\n\n\tkernel_init_freeable();\n",
    "init/calibrate.c": "",
}
CLONE = {TEMPLATE: "the first template\n", "thresholds.yaml": "limit: 150 virtual us\n"}


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Have a small kernel pinned, and a clone of rtgate at `clone`."""
    identity = SimpleNamespace(package="linux-source", package_version="1")
    tree = SimpleNamespace(path=tmp_path / "pinned", identity=identity, clone=tmp_path / "clone")
    for place, files in ((tree.path, SOURCE), (tree.clone, CLONE)):
        for name, text in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
    monkeypatch.setattr(kernel_repository, "default_tree", lambda: tree)
    monkeypatch.setattr(review_cases, "ROOT", tree.clone)
    return tree


def prepared(path: Path) -> KernelRepository:
    repository = KernelRepository.at(path)
    review_cases.prepare(repository)
    return repository


def test_each_run_has_the_job_template_of_today(kernel: SimpleNamespace, tmp_path: Path) -> None:
    first = prepared(tmp_path / "linux").git("rev-parse", "main", "slow")
    assert prepared(tmp_path / "linux").git("rev-parse", "main", "slow") == first  # so their kernels are known
    (kernel.clone / TEMPLATE).write_text("a broken template\n")
    repository = prepared(tmp_path / "linux")
    assert repository.git("show", "slow:rtgate.yml") == "a broken template"
    assert (tmp_path / "linux" / "rtgate.yml").read_text() == "a broken template\n"


def test_another_pinned_source_makes_another_repository(kernel: SimpleNamespace, tmp_path: Path) -> None:
    prepared(tmp_path / "linux")
    (kernel.path / "init" / "new.c").touch()
    assert not (prepared(tmp_path / "linux").path / "init" / "new.c").exists()
    kernel.identity.package_version = "2"
    assert (prepared(tmp_path / "linux").path / "init" / "new.c").exists()


@pytest.mark.usefixtures("kernel")
def test_an_interrupted_preparation_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(source: Path, path: Path, **_: object) -> None:
        (path / "init").mkdir(parents=True)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copytree", interrupt)
        with pytest.raises(KeyboardInterrupt):
            KernelRepository.at(tmp_path / "linux")
    repository = KernelRepository.at(tmp_path / "linux")
    repository.git("checkout", "-b", "half")
    (repository.path / "init" / "main.c").write_text("half an edit")
    assert prepared(tmp_path / "linux").git("status", "--porcelain") == ""
