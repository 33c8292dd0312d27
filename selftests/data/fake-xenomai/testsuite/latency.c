/* SPDX-License-Identifier: MIT */
int cobalt_init(void);
int main(void) { return cobalt_init(); }
