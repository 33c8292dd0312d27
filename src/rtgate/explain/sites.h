/* SPDX-License-Identifier: MIT */
/* Between which places of the kernel critical sections lie, and how long those of each site are. */
#ifndef RTGATE_SITES_H
#define RTGATE_SITES_H

#include <stdint.h>

#include "caches.h"

struct site {
	uint64_t begin, begin_caller, end, end_caller;
	uint32_t kind, context;
};

/* A section that has ended now. */
struct length {
	uint64_t instructions;
	struct misses misses;
	uint64_t from; /* n where it began */
};

struct known_site;

void sites_install(void);
struct known_site *sites_add(const struct site *site, const struct length *length); /* a section of it */
void sites_add_call(struct known_site *known, uint32_t function, uint64_t instructions); /* in the last section */
void sites_end(void);

#endif
