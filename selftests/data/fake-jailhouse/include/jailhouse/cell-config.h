// SPDX-License-Identifier: MIT
/* cell-config.h */
