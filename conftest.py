# SPDX-License-Identifier: MIT
"""Loads rtgate's pytest plugin, nothing else."""

pytest_plugins = ["rtgate.plugin"]
