# SPDX-License-Identifier: MIT
"""Judgement: validity, limits, verdicts. Pure: no I/O but reading thresholds.yaml, no clock, no chance."""
