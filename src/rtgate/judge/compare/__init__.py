# SPDX-License-Identifier: MIT
"""Comparing two kernels: on virtual time by phases, on boards by pairs of boots. Pure."""
