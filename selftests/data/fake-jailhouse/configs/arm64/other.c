// SPDX-License-Identifier: MIT
/* a cell of another board */
