# SPDX-License-Identifier: MIT
"""A step of the wheel's build: what a clone has at its top and an installation needs goes into `rtgate/share`."""

from __future__ import annotations

from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Share(BuildHookInterface[BuilderConfig]):
    """Adds the files and directories that pyproject.toml lists; an editable install uses those of the clone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add them to a wheel of the version `standard`, and not to `editable`."""
        if version == "standard":
            build_data["force_include"].update({name: f"rtgate/share/{name}" for name in self.config["share"]})
