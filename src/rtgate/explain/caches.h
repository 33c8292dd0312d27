/* SPDX-License-Identifier: MIT */
/* A model of a CPU's caches: which accesses miss. */
#ifndef RTGATE_CACHES_H
#define RTGATE_CACHES_H

#include <stdbool.h>
#include <stdint.h>

enum level { L1I, L1D, L2, LEVELS };
enum { LINE_BITS = 6 }; /* a line has 64 bytes */

struct misses {
	uint64_t of[LEVELS];
};

extern struct misses caches_misses; /* since power-on */

bool caches_order(const char *line); /* whether the line is for caches */
bool caches_wanted(void); /* whether a line was */
const char *caches_lack(void); /* the level that the order has left out, or NULL */
void caches_access(enum level first, uint64_t address); /* physical; the first level is that of code or of data */

struct misses misses_between(struct misses before, struct misses after);
struct misses misses_sum(struct misses one, struct misses other);

#endif
