/* SPDX-License-Identifier: MIT */
/* Ranges of addresses, as lines of the order give them. */
#ifndef RTGATE_RANGES_H
#define RTGATE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
	uint64_t start, end;
	bool interrupt; /* of exceptions */
};

struct ranges {
	struct range *all;
	size_t count;
};

void ranges_add(struct ranges *ranges, struct range one);
const struct range *ranges_find(const struct ranges *ranges, uint64_t address); /* NULL: it lies in none */

#endif
