# SPDX-License-Identifier: MIT
"""Several kernels of one tree, one after the other; they share the compiler's cache."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rtgate.errors import BuildError, ConfigError
from rtgate.kernel import build as kernel_build
from rtgate.kernel.artefacts import KernelBuild
from rtgate.kernel.configuration import BuildDescription
from rtgate.kernel.source import Tree
from rtgate.kernel.work import UnsupportedTreeError


@dataclass(frozen=True, slots=True)
class BuildOutcome:
    """What came of one build.

    Attributes:
        kernel: None where there is none.
        unsupported: why this tree is not for the build; empty where it is.
        failure: what stopped it; empty where nothing did.
    """

    description: BuildDescription
    seconds: float
    kernel: KernelBuild | None = None
    unsupported: str = ""
    failure: str = ""


def output_in(directory: Path, description: BuildDescription, options: kernel_build.Options) -> Path:
    """Return where a build goes that nobody gave a place: gcc's and Clang's do not replace each other."""
    return directory / f"{description.name}{options.toolchain.suffix}"


def build_each(
    descriptions: Sequence[BuildDescription], tree: Tree, directory: Path, options: kernel_build.Options
) -> Iterator[BuildOutcome]:
    """Build each into `directory/NAME` (with Clang `NAME-clang`) and yield what came of it, in their order.

    One that fails stops no other.

    Raises:
        InfrastructureError, Interrupted: as `kernel.build.build`.
    """
    for description in descriptions:
        options.listener.notice(f"building {description.name}")
        start = time.monotonic()
        output = output_in(directory, description, options)
        kernel, unsupported, failure = None, "", ""
        try:
            kernel = kernel_build.build(description, tree, output, options)
        except UnsupportedTreeError as error:
            unsupported = error.reason
        except (BuildError, ConfigError) as error:
            failure = str(error)
        yield BuildOutcome(description, time.monotonic() - start, kernel, unsupported, failure)
