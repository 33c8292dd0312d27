// SPDX-License-Identifier: MIT
#include "base.h"
#include "ranges.h"

void ranges_add(struct ranges *ranges, struct range one)
{
	ranges->all = grown(ranges->all, (ranges->count + 1) * sizeof(*ranges->all));
	ranges->all[ranges->count++] = one;
}

const struct range *ranges_find(const struct ranges *ranges, uint64_t address)
{
	for (size_t i = 0; i < ranges->count; i++)
		if (address >= ranges->all[i].start && address < ranges->all[i].end)
			return &ranges->all[i];
	return NULL;
}
