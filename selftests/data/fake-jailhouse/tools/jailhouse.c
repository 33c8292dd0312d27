// SPDX-License-Identifier: MIT
/* jailhouse.c */
