# SPDX-License-Identifier: MIT
"""Making a kernel: sources, configuration, patches, the build and what it leaves behind."""
