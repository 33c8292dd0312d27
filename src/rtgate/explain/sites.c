// SPDX-License-Identifier: MIT
/*
 * sites: sums of sections, in each slice for itself: in that in which they end. PREFIX.sites, .sums and .calls are
 * written: records as below.
 */
#include <string.h>

#include "base.h"
#include "sites.h"

enum { BUCKETS = 32, SITES = 1 << 16 };

struct sum {
	uint32_t site, slice;
	uint64_t count, total, longest, from, to; /* the last two: n at both ends of the longest */
	struct misses misses, of_longest; /* of all, and of the longest */
	uint32_t buckets[BUCKETS]; /* of lengths from 2^b to 2^(b+1) - 1; the last one has no end */
};

/* The longest call of an altered function in sections of a site, in a slice. */
struct call_sum {
	uint32_t site, slice, function, unused;
	uint64_t longest;
};

struct known_site {
	struct site site;
	struct sum sum;
	struct call_sum *calls;
	size_t call_count;
};

static struct known_site *sites[SITES];
static struct known_site **by_number;
static size_t site_count;
static FILE *sums, *call_sums;

void sites_install(void)
{
	sums = opened("sums");
	call_sums = opened("calls");
}

static void put(struct known_site *known)
{
	if (known->sum.count)
		fwrite(&known->sum, sizeof(known->sum), 1, sums);
	if (known->call_count)
		fwrite(known->calls, sizeof(*known->calls), known->call_count, call_sums);
	known->sum = (struct sum){ .site = known->sum.site };
	known->call_count = 0;
}

static struct known_site *known_as(const struct site *site)
{
	uint64_t key = site->begin * 31 + site->begin_caller * 37 + site->end * 41 + site->end_caller * 43;
	size_t place = ((key * 0x9e3779b97f4a7c15ull) >> 40 ^ site->kind * 3 ^ site->context) % SITES;

	while (sites[place] && memcmp(&sites[place]->site, site, sizeof(*site)))
		place = (place + 1) % SITES;
	if (!sites[place]) {
		if (site_count == SITES / 2)
			fail("more sites than there is room for", "sections");
		sites[place] = room_for(sizeof(**sites));
		sites[place]->site = *site;
		sites[place]->sum.site = site_count;
		by_number = grown(by_number, (site_count + 1) * sizeof(*by_number));
		by_number[site_count++] = sites[place];
	}
	return sites[place];
}

struct known_site *sites_add(const struct site *site, const struct length *length)
{
	struct known_site *known = known_as(site);
	struct sum *sum = &known->sum;
	int bucket = length->instructions ? 63 - __builtin_clzll(length->instructions) : 0;

	if (sum->slice != slice_now()) {
		put(known);
		sum->slice = slice_now();
	}
	sum->count++;
	sum->total += length->instructions;
	sum->misses = misses_sum(sum->misses, length->misses);
	if (length->instructions > sum->longest || sum->count == 1) {
		sum->longest = length->instructions;
		sum->of_longest = length->misses;
		sum->from = length->from;
		sum->to = *instruction_count;
	}
	sum->buckets[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
	return known;
}

void sites_add_call(struct known_site *known, uint32_t function, uint64_t instructions)
{
	size_t i = 0;

	while (i < known->call_count && known->calls[i].function != function)
		i++;
	if (i == known->call_count) {
		known->calls = grown(known->calls, ++known->call_count * sizeof(*known->calls));
		known->calls[i] = (struct call_sum){ known->sum.site, known->sum.slice, function, 0, 0 };
	}
	if (instructions > known->calls[i].longest)
		known->calls[i].longest = instructions;
}

void sites_end(void)
{
	FILE *stream = opened("sites");

	for (size_t i = 0; i < site_count; i++) {
		put(by_number[i]);
		fwrite(&by_number[i]->site, sizeof(by_number[i]->site), 1, stream);
	}
	closed(stream, "sites");
	closed(sums, "sums");
	closed(call_sums, "calls");
}
