// SPDX-License-Identifier: MIT
/*
 * caches: how often a CPU with caches of a given geometry would miss. The board itself has none: this counts beside it, and
 * nothing takes longer.
 *
 * Each cache forgets the line that was used longest ago (LRU). Code goes through L1I and data through L1D, and what misses
 * there goes through L2, which both share. Stores allocate as loads do. Nothing is fetched ahead.
 *
 * Lines of the order, all three or none:
 *   cache l1i SETS WAYS
 *   cache l1d SETS WAYS
 *   cache l2 SETS WAYS       sets are a power of two
 */
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "caches.h"

struct cache {
	uint64_t sets;
	unsigned int ways;
	uint64_t *lines; /* of each set, the one used last first: 1 more than their number, and 0 for none */
};

struct misses caches_misses;
static const char *const NAMES[LEVELS] = { "l1i", "l1d", "l2" };
static struct cache caches[LEVELS];

bool caches_order(const char *line)
{
	unsigned long long sets;
	unsigned int ways;
	char name[8];

	if (sscanf(line, "cache %7s %llu %u", name, &sets, &ways) != 3 || !sets || sets & (sets - 1) || !ways)
		return false;
	for (int level = 0; level < LEVELS; level++)
		if (!strcmp(name, NAMES[level])) {
			caches[level] = (struct cache){ sets, ways, room_for(sets * ways * sizeof(uint64_t)) };
			return true;
		}
	return false;
}

bool caches_wanted(void)
{
	return caches[L1I].lines || caches[L1D].lines || caches[L2].lines;
}

const char *caches_lack(void)
{
	for (int level = 0; level < LEVELS; level++)
		if (!caches[level].lines)
			return NAMES[level];
	return NULL;
}

/* Use a line of a cache, and return whether it was there. */
static bool use(struct cache *cache, uint64_t number)
{
	uint64_t *set = cache->lines + (number & (cache->sets - 1)) * cache->ways;
	unsigned int way = 0;
	bool hit;

	if (set[0] == number + 1)
		return true;
	while (way < cache->ways - 1 && set[way] != number + 1)
		way++;
	hit = set[way] == number + 1;
	memmove(set + 1, set, way * sizeof(*set));
	set[0] = number + 1;
	return hit;
}

void caches_access(enum level first, uint64_t address)
{
	uint64_t number = address >> LINE_BITS;

	if (use(&caches[first], number))
		return;
	caches_misses.of[first]++;
	if (!use(&caches[L2], number))
		caches_misses.of[L2]++;
}

struct misses misses_between(struct misses before, struct misses after)
{
	for (int level = 0; level < LEVELS; level++)
		after.of[level] -= before.of[level];
	return after;
}

struct misses misses_sum(struct misses one, struct misses other)
{
	for (int level = 0; level < LEVELS; level++)
		one.of[level] += other.of[level];
	return one;
}
