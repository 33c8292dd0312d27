// SPDX-License-Identifier: MIT
/*
 * rtgate-queuelat: would a queue of packets overflow while the program that drains it is interrupted?
 *
 * It measures what queuelat of rt-tests measures, and prints it in the same form, but is written anew: compilers remove
 * the copying from Debian's builds, because nobody reads what was copied. Here the compiler is told that the copy is
 * looked at. See rtgate-queuelat.1.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#ifndef PROGRAM_VERSION
#define PROGRAM_VERSION "unknown"
#endif

enum { MEASURED = 0, USAGE = 2, NO_BLOCK = 3, NOT_LOCKED = 4, SYSTEM = 9 };
enum { NEAR = 2 }; /* steps by which a copy may miss the time that it should take */
enum { STEP_NS = 100, STEPS = 700, TRIALS = 400, BLOCK_STEP = 64, FIRST_BLOCK = 1024, LARGEST_BLOCK = 1 << 26 };
/* A copy takes half of it, which must be in a step that has an end. */
enum { LATENCY_MOST_NS = 2 * (STEPS - NEAR - 1) * STEP_NS, MOST = 1000000000 };

/* What is asked for: times in ns, packets that arrive in a microsecond, seconds to measure. */
struct asked {
	uint64_t latency_ns, packet_ns, packets_per_us, seconds;
};

/* Copies by their time; the last step is open to above. */
struct copies {
	uint64_t by_time[STEPS + 1];
	uint64_t all;
};

static char *from, *to;

_Noreturn static void fail(int status, const char *what, const char *reason)
{
	fprintf(stderr, "rtgate-queuelat: %s: %s\n", what, reason);
	exit(status);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Copies a block once and returns how long it took. */
static uint64_t copy(size_t bytes)
{
	uint64_t began = now_ns();

	memmove(to, from, bytes);
	__asm__ volatile("" : : "r"(to) : "memory");	/* somebody may read the copy: it cannot be left out */
	return now_ns() - began;
}

static void count(struct copies *copies, uint64_t ns)
{
	copies->by_time[ns / STEP_NS < STEPS ? ns / STEP_NS : STEPS]++;
	copies->all++;
}

/* Returns the step below whose end `share` of 1000 copies are. */
static unsigned quantile(const struct copies *copies, unsigned share)
{
	uint64_t below = 0;
	unsigned step;

	for (step = 0; step < STEPS; step++) {
		below += copies->by_time[step];
		if (below * 1000 >= copies->all * share)
			break;
	}
	return step;
}

/* Copies a block often enough to know its usual time. */
static void try_block(size_t bytes, struct copies *copies)
{
	memset(copies, 0, sizeof(*copies));
	memset(from, 1, bytes);	/* memory that was never written is one page of zeros */
	memset(to, 0, bytes);
	for (int trial = 0; trial < TRIALS; trial++)
		count(copies, copy(bytes));
}

/* Looks for a block whose copy takes as long as asked, up to two steps more or less; half of all copies decide. */
static size_t find_block(uint64_t wanted_ns, struct copies *copies)
{
	size_t low = 0, high = FIRST_BLOCK;
	unsigned wanted = (unsigned)(wanted_ns / STEP_NS), found;

	for (;; high *= 2) {
		if (high > LARGEST_BLOCK)
			fail(NO_BLOCK, "no block is large enough", "its copy is too fast");
		try_block(high, copies);
		if (quantile(copies, 500) >= wanted)
			break;
		low = high;
	}
	while (high - low > BLOCK_STEP) {
		size_t middle = (low + high) / 2 / BLOCK_STEP * BLOCK_STEP;

		if (middle <= low)
			middle = low + BLOCK_STEP;
		try_block(middle, copies);
		found = quantile(copies, 500);
		if (found + NEAR >= wanted && found <= wanted + NEAR)
			return middle;
		if (found < wanted)
			low = middle;
		else
			high = middle;
	}
	fail(NO_BLOCK, "no block fits", "the times of its copies jump: is this CPU's frequency changing?");
}

/* Prints the copies by time; of steps with equal counts only the last, after a line of dots. */
static void print_copies(const struct copies *copies)
{
	int dots = 0;

	for (unsigned step = 0; step < STEPS; step++) {
		if (copies->by_time[step] == copies->by_time[step + 1]) {
			dots = 1;
			continue;
		}
		printf("%s[%u - %u] = %" PRIu64 "\n", dots ? "...\n" : "", step * STEP_NS, step * STEP_NS + STEP_NS - 1,
		       copies->by_time[step]);
		dots = 0;
	}
	printf("%s[%u - END] = %" PRIu64 "\n", dots ? "...\n" : "", STEPS * STEP_NS, copies->by_time[STEPS]);
}

static void print_summary(const struct copies *copies)
{
	unsigned lowest = STEPS + 1, highest = 0;
	uint64_t sum = 0;

	for (unsigned step = 0; step <= STEPS; step++) {
		if (!copies->by_time[step])
			continue;
		lowest = lowest > STEPS ? step : lowest;
		highest = step;
		sum += copies->by_time[step] * (step * STEP_NS + STEP_NS - 1);
	}
	printf("\n ---------------- \n");
	printf("Min loop processing time: [%u - %u] = %" PRIu64 "\n", lowest * STEP_NS, lowest * STEP_NS + STEP_NS - 1,
	       copies->by_time[lowest]);
	printf("Max loop processing time: [%u - %u] = %" PRIu64 "\n", highest * STEP_NS,
	       highest * STEP_NS + STEP_NS - 1, copies->by_time[highest]);
	printf("Avg loop processing time: %" PRIu64 "\n", sum / copies->all);
}

/* Copies for as long as asked and keeps account of the queue; what does not fit into a full one is lost. */
static void measure(const struct asked *asked)
{
	static struct copies copies;
	size_t block = find_block(asked->latency_ns / 2, &copies);
	/* What can be handled while the usual copy runs: 39 of 40 are no longer. */
	uint64_t drained = (quantile(&copies, 975) + 1) * STEP_NS / asked->packet_ns;
	uint64_t room = asked->latency_ns / asked->packet_ns, queue = 0, longest = 0, exceeded = 0;
	uint64_t end;

	printf("max_queue_len = %" PRIu64 "\n", room);
	printf("default_n=%zu nr_packets_drain_per_block=%" PRIu64 "\n", block, drained);
	fflush(stdout);
	memset(&copies, 0, sizeof(copies));
	end = now_ns() + asked->seconds * 1000000000u;
	do {
		uint64_t ns = copy(block);

		count(&copies, ns);
		queue += ns * asked->packets_per_us / 1000;
		queue = queue > drained ? queue - drained : 0;
		longest = queue > longest ? queue : longest;
		if (queue > room) {
			exceeded++;
			queue = room;
		}
	} while (now_ns() < end);
	printf("longest queue = %" PRIu64 ", exceeded = %" PRIu64 "\n", longest, exceeded);
	print_copies(&copies);
	print_summary(&copies);
}

static uint64_t number(const char *name, const char *text, unsigned long long most)
{
	char *end, expected[64];
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || !value || value > most) {
		snprintf(expected, sizeof(expected), "expected a whole number from 1 to %llu", most);
		fail(USAGE, name, expected);
	}
	return value;
}

static void help(void)
{
	puts("usage: rtgate-queuelat --latency=NS --packet=NS --packets=N --seconds=S\n"
	     "  --latency=NS   how long a full queue takes to drain, at most 139400; a copy takes half of it\n"
	     "  --packet=NS    how long a packet takes to handle\n"
	     "  --packets=N    how many packets arrive in a microsecond\n"
	     "  --seconds=S    how long to measure, once a block was found\n"
	     "  --version, --help");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "latency", required_argument, NULL, 'l' },  { "packet", required_argument, NULL, 'k' },
		{ "packets", required_argument, NULL, 'p' },  { "seconds", required_argument, NULL, 's' },
		{ "version", no_argument, NULL, 'V' },	      { "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct asked asked = { 0 };
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'l': asked.latency_ns = number("--latency", optarg, LATENCY_MOST_NS); break;
		case 'k': asked.packet_ns = number("--packet", optarg, MOST); break;
		case 'p': asked.packets_per_us = number("--packets", optarg, MOST); break;
		case 's': asked.seconds = number("--seconds", optarg, MOST); break;
		case 'V': puts("rtgate-queuelat " PROGRAM_VERSION); return MEASURED;
		case 'h': help(); return MEASURED;
		default: return USAGE;
		}
	}
	if (optind != argc || !asked.latency_ns || !asked.packet_ns || !asked.packets_per_us || !asked.seconds)
		fail(USAGE, "command line", "--latency, --packet, --packets and --seconds are needed, and nothing else");
	from = malloc(LARGEST_BLOCK);
	to = malloc(LARGEST_BLOCK);
	/* Only what is touched takes memory: the blocks that are tried. */
	if (!from || !to)
		fail(SYSTEM, "no memory for the blocks", strerror(errno));
	if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT))
		fail(NOT_LOCKED, "memory is not locked", strerror(errno));
	measure(&asked);
	return fflush(stdout) ? SYSTEM : MEASURED;
}
