# SPDX-License-Identifier: MIT
"""Requests over HTTP: patience with a server that is away, and whose mistake a failure is."""
