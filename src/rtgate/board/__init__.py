# SPDX-License-Identifier: MIT
"""Boards: facts of one kind of hardware, and what a board is set to before it measures."""
