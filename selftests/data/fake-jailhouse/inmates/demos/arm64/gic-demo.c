// SPDX-License-Identifier: MIT
/* gic-demo.c */
