# SPDX-License-Identifier: MIT
"""Validity: the checks that must hold before a measurement may be judged. Pure."""
