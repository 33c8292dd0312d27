# SPDX-License-Identifier: MIT
"""A LAVA job before it runs: what it is to measure, its definition, the files that it boots."""
