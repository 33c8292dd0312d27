# SPDX-License-Identifier: MIT
"""Measuring: a case on a boot becomes a record."""
