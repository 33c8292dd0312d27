// SPDX-License-Identifier: MIT
/* main.c */
