# SPDX-License-Identifier: MIT
"""Driving a board: plans, virtual boards, and carrying a plan out."""
