/* SPDX-License-Identifier: MIT */
int cobalt;
