# SPDX-License-Identifier: MIT
"""A LAVA lab: what it supports, and health checks of its boards."""
