# SPDX-License-Identifier: MIT
"""A LAVA server as its client sees it: requests, jobs submitted and followed."""
