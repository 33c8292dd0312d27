// SPDX-License-Identifier: MIT
/*
 * pcie-bar: how fast a CPU stores to and loads from a PCI function's memory, and whether what it reads is what it wrote.
 *
 * Threads, one per CPU, live from start to end; the main thread hands them one operation after the other and they begin
 * each together. An operation repeats whole passes over a thread's own part of the BAR until its time is over. Nothing
 * is printed before the end. pcie-bar.1 tells the rest.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "access.h"
#include "device.h"
#include "fail.h"

#ifndef PROGRAM_VERSION
#define PROGRAM_VERSION "unknown"
#endif

#define THREADS 256
#define GRAIN 64ULL		 /* loops move multiples of this */
#define BETWEEN_CLOCKS (64 << 10) /* bytes of a small part between two looks at the clock */
#define BETWEEN_LOOKS_S 1	 /* at whether the device is still there */
#define DEFAULT_LENGTH (1ULL << 20)
#define DEFAULT_SEED 1ULL

struct part {
	uint8_t *at;	     /* in the BAR */
	uint8_t *copy;	     /* in RAM: what the part should hold */
	uint8_t *copied;     /* in RAM: what was copied from the part between two looks at the clock */
	size_t bytes;
	uint64_t seed;
};

struct operation {
	const char *name;
	int width;	     /* bits of each access */
	bool stores;
	void (*store)(void *, size_t, uint64_t);
	uint64_t (*load)(const void *, size_t);
};

static void store_memset(void *to, size_t bytes, uint64_t value)
{
	io_memset(to, value & 0xff, bytes);
}

/* memcpy_fromio has neither: it copies into the part's memory. */
static const struct operation operations[] = {
	{ "store32", 32, true, store32, NULL },
	{ "store64", 64, true, store64, NULL },
	{ "store128", 128, true, store128, NULL },
	{ "memset_io", 64, true, store_memset, NULL },
	{ "plain128", 128, true, plain128, NULL },
	{ "load32", 32, false, NULL, load32 },
	{ "load64", 64, false, NULL, load64 },
	{ "load128", 128, false, NULL, load128 },
	{ "memcpy_fromio", 64, false, NULL, NULL },
};
#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

static struct {
	const char *sysfs, *device;
	int bar;
	bool write_combining, read_only, force;
	unsigned long long offset, length, seed;
	double seconds;
	bool operations[OPERATIONS];
	int counts[16], count_lists; /* numbers of threads to measure with, in turn */
	cpu_set_t cpus;
} options = { .sysfs = "/sys", .bar = -1, .seconds = 1.0, .seed = DEFAULT_SEED };

/* What a thread found in one operation. */
struct result {
	struct timespec start, end;
	unsigned long long passes;
	unsigned long long wrong;      /* bytes */
	size_t first;		       /* offset in the BAR of the first wrong byte */
	uint8_t expected, found;
};

struct worker {
	pthread_t thread;
	int cpu, index;
	struct part part;
	struct result result;
};

static FILE *out; /* kept until the end, so that a failure prints no half of it */
static struct worker workers[THREADS];
static int worker_count;
static pthread_barrier_t go;
static sem_t done; /* one for each worker that has finished an operation */
static struct {
	const struct operation *operation; /* NULL: end */
	int threads;
} task;
static atomic_int gone_at_signal;
static volatile sig_atomic_t stopped; /* by this signal */
static struct device device;
static struct bar bar;
static uint8_t *mapping;

/* --- the device --- */

static void on_bus_error(int signal)
{
	static const char text[] = "pcie-bar: the device is gone: an access to its BAR raised SIGBUS\n";

	(void)signal;
	if (!atomic_exchange(&gone_at_signal, 1) && write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(SYSTEM);
	_exit(DEVICE_GONE);
}

/* The threads end what they do, and then the function is given back. */
static void on_stop(int signal)
{
	stopped = signal;
}

static void check_presence(void)
{
	if (!device_answers(&device))
		fail(DEVICE_GONE, "%s is gone: its configuration space does not answer any more", device.address);
}

static void choose_bar(void)
{
	struct bar each, largest = { 0 };
	int i, chosen = -1;

	for (i = 0; i < BARS; i++) {
		each = device_bar(&device, i);
		if (each.memory && each.bytes > largest.bytes) {
			largest = each;
			chosen = i;
		}
	}
	if (options.bar < 0)
		options.bar = chosen;
	if (options.bar < 0)
		fail(NO_BAR, "%s has no memory BAR", device.address);
	bar = device_bar(&device, options.bar);
	if (!bar.bytes)
		fail(NO_BAR, "%s has no BAR %d", device.address, options.bar);
	if (!bar.memory)
		fail(NO_BAR, "BAR %d of %s is I/O ports, not memory", options.bar, device.address);
	if (options.write_combining && !bar.prefetchable)
		fail(NO_BAR, "BAR %d of %s is not prefetchable: it cannot be mapped write-combining", options.bar,
		     device.address);
}

static void choose_region(void)
{
	if (!options.length && options.offset < bar.bytes)
		options.length = bar.bytes - options.offset < DEFAULT_LENGTH ? bar.bytes - options.offset :
									       DEFAULT_LENGTH;
	if (options.offset > bar.bytes || options.length > bar.bytes - options.offset || !options.length)
		fail(BAR_TOO_SMALL, "BAR %d of %s has %llu bytes: %llu at offset %llu do not fit", options.bar,
		     device.address, bar.bytes, options.length, options.offset);
}

static void disable(void)
{
	device_write(&device, "enable", "0");
}

/* A function that no driver has may not decode its addresses: loads would be ones, and stores go nowhere. */
static void enable(void)
{
	char text[16];

	if (device_read(&device, "enable", text, sizeof(text)))
		fail_errno(SYSTEM, "%s: whether it is enabled cannot be read", device.address);
	if (strcmp(text, "0"))
		return;
	if (device_write(&device, "enable", "1"))
		fail_errno(SYSTEM, "%s cannot be enabled", device.address);
	atexit(disable);
}

static void check_driver(void)
{
	char driver[64];

	device_driver(&device, driver, sizeof(driver));
	if (driver[0] && !options.force && !options.read_only)
		fail(IN_USE, "the driver %s has %s and stores would disturb it: unbind it, or say --force", driver,
		     device.address);
}

static void map(void)
{
	char path[640];
	struct stat status;
	int file;

	snprintf(path, sizeof(path), "%s/resource%d%s", device.path, options.bar, options.write_combining ? "_wc" : "");
	file = open(path, (options.read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (file < 0)
		fail_errno(NO_BAR, "BAR %d of %s cannot be opened (%s)", options.bar, device.address, path);
	if (fstat(file, &status) || (unsigned long long)status.st_size < options.offset + options.length)
		fail(BAR_TOO_SMALL, "%s has %lld bytes, not %llu", path, (long long)status.st_size,
		     options.offset + options.length);
	/* From the BAR's start: an offset need not be that of a page. */
	mapping = mmap(NULL, options.offset + options.length, PROT_READ | (options.read_only ? 0 : PROT_WRITE),
		       MAP_SHARED, file, 0);
	if (mapping == MAP_FAILED)
		fail_errno(SYSTEM, "BAR %d of %s cannot be mapped (a driver that claims it with CONFIG_IO_STRICT_DEVMEM?)",
			   options.bar, device.address);
	close(file);
	mapping += options.offset;
}

/* --- data --- */

/* Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014): a different word for each index. */
static uint64_t word_of(uint64_t seed, uint64_t index)
{
	uint64_t word = seed + (index + 1) * 0x9e3779b97f4a7c15u;

	word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
	word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
	return word ^ (word >> 31);
}

static uint64_t pass_value(const struct part *part, unsigned long long pass)
{
	return word_of(~part->seed, pass);
}

/* The copy gets what the part should hold. */
static void expect_pattern(const struct part *part)
{
	uint64_t word;
	size_t at;

	for (at = 0; at < part->bytes; at += sizeof(word)) {
		word = word_of(part->seed, at / sizeof(word));
		memcpy(part->copy + at, &word, sizeof(word));
	}
}

static void expect_stored(const struct part *part, const struct operation *operation, uint64_t value)
{
	const uint64_t both[2] = { value, ~value };
	size_t at, width = operation->width / 8;

	if (operation->store == store_memset) {
		memset(part->copy, value & 0xff, part->bytes);
		return;
	}
	for (at = 0; at < part->bytes; at += width)
		memcpy(part->copy + at, both, width);
}

static void compare(const struct part *part, const uint8_t *found, struct result *result)
{
	size_t at;

	if (!memcmp(found, part->copy, part->bytes))
		return;
	for (at = 0; at < part->bytes; at++) {
		if (found[at] == part->copy[at])
			continue;
		if (!result->wrong++) {
			result->first = part->at - mapping + options.offset + at;
			result->expected = part->copy[at];
			result->found = found[at];
		}
	}
}

/* Reads the part, in other accesses than those that are judged, and compares it with the copy. */
static void read_back(const struct part *part, struct result *result)
{
	uint8_t block[4096] __attribute__((aligned(8)));
	struct part piece = *part;
	size_t at;

	for (at = 0; at < part->bytes; at += piece.bytes) {
		piece.at = part->at + at;
		piece.copy = part->copy + at;
		piece.bytes = part->bytes - at < sizeof(block) ? part->bytes - at : sizeof(block);
		io_memcpy_from(block, piece.at, piece.bytes);
		compare(&piece, block, result);
	}
}

/* --- operations, in the threads --- */

static double seconds_between(const struct timespec *start, const struct timespec *end)
{
	return (end->tv_sec - start->tv_sec) + (end->tv_nsec - start->tv_nsec) * 1e-9;
}

static struct timespec later(const struct timespec *start, double seconds)
{
	long long ns = start->tv_nsec + (long long)(seconds * 1e9);

	return (struct timespec){ .tv_sec = start->tv_sec + ns / 1000000000, .tv_nsec = ns % 1000000000 };
}

static unsigned long long passes_between_clocks(const struct part *part)
{
	return part->bytes < BETWEEN_CLOCKS ? BETWEEN_CLOCKS / part->bytes : 1;
}

static void time_stores(const struct operation *operation, const struct part *part, struct result *result)
{
	unsigned long long i, batch = passes_between_clocks(part);

	clock_gettime(CLOCK_MONOTONIC, &result->start);
	do {
		for (i = 0; i < batch; i++)
			operation->store(part->at, part->bytes, pass_value(part, result->passes++));
		/* Stores are posted: only a load behind them tells that they have arrived. */
		load32(part->at + part->bytes - GRAIN, GRAIN);
		clock_gettime(CLOCK_MONOTONIC, &result->end);
	} while (!stopped && seconds_between(&result->start, &result->end) < options.seconds);
	expect_stored(part, operation, pass_value(part, result->passes - 1));
	read_back(part, result);
}

static void time_loads(const struct operation *operation, const struct part *part, struct result *result)
{
	unsigned long long i, batch = passes_between_clocks(part);
	uint64_t sum = 0;

	clock_gettime(CLOCK_MONOTONIC, &result->start);
	do {
		for (i = 0; i < batch; i++, result->passes++)
			sum += operation->load(part->at, part->bytes);
		clock_gettime(CLOCK_MONOTONIC, &result->end);
	} while (!stopped && seconds_between(&result->start, &result->end) < options.seconds);
	if (options.read_only)
		return;
	if (sum != operation->load(part->copy, part->bytes) * result->passes) {
		read_back(part, result);
		/* Wrong while it was timed and right now: nobody knows where. */
		result->wrong += !result->wrong;
	}
}

/* Each copy is compared before the next ones overwrite it. That is not timed: the end is that much earlier. */
static void time_copies(const struct part *part, struct result *result)
{
	unsigned long long i, batch = passes_between_clocks(part);
	struct timespec start, end;
	double seconds = 0;

	clock_gettime(CLOCK_MONOTONIC, &result->start);
	do {
		clock_gettime(CLOCK_MONOTONIC, &start);
		for (i = 0; i < batch; i++)
			io_memcpy_from(part->copied + i * part->bytes, part->at, part->bytes);
		clock_gettime(CLOCK_MONOTONIC, &end);
		seconds += seconds_between(&start, &end);
		result->passes += batch;
		for (i = 0; i < batch && !options.read_only; i++)
			compare(part, part->copied + i * part->bytes, result);
	} while (!stopped && seconds < options.seconds);
	result->end = later(&result->start, seconds);
}

/* Loads read a pattern in which no two words are equal, so that an address that is decoded wrongly shows. */
static void prepare(const struct operation *operation, const struct part *part)
{
	if (operation->stores || options.read_only)
		return;
	expect_pattern(part);
	io_memcpy_to(part->at, part->copy, part->bytes);
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	while (pthread_barrier_wait(&go), task.operation) {
		bool taking_part = worker->index < task.threads;

		worker->result = (struct result){ 0 };
		if (taking_part)
			prepare(task.operation, &worker->part);
		pthread_barrier_wait(&go);
		if (taking_part && task.operation->stores)
			time_stores(task.operation, &worker->part, &worker->result);
		else if (taking_part && task.operation->load)
			time_loads(task.operation, &worker->part, &worker->result);
		else if (taking_part)
			time_copies(&worker->part, &worker->result);
		sem_post(&done);
	}
	return NULL;
}

/* --- the main thread --- */

static void start_workers(void)
{
	pthread_attr_t attributes;
	cpu_set_t one;
	int i, cpu = -1;

	pthread_barrier_init(&go, NULL, worker_count + 1);
	sem_init(&done, 0, 0);
	for (i = 0; i < worker_count; i++) {
		while (!CPU_ISSET(++cpu, &options.cpus))
			;
		workers[i].index = i;
		workers[i].cpu = cpu;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		pthread_attr_init(&attributes);
		pthread_attr_setaffinity_np(&attributes, sizeof(one), &one);
		errno = pthread_create(&workers[i].thread, &attributes, work, &workers[i]);
		if (errno)
			fail_errno(SYSTEM, "no thread can be started on CPU %d", cpu);
		pthread_attr_destroy(&attributes);
	}
}

static void end_workers(void)
{
	int i;

	task.operation = NULL;
	pthread_barrier_wait(&go);
	for (i = 0; i < worker_count; i++)
		pthread_join(workers[i].thread, NULL);
}

/* The kernel leaves a mapping of a function that was removed as it is: nothing but asking tells. */
static void wait_for_workers(void)
{
	struct timespec until;
	int left = worker_count;

	clock_gettime(CLOCK_MONOTONIC, &until);
	while (left) {
		if (!sem_clockwait(&done, CLOCK_MONOTONIC, &until)) {
			left--;
		} else if (errno == ETIMEDOUT) {
			check_presence();
			until.tv_sec += BETWEEN_LOOKS_S;
		}
	}
}

static bool copies_are_timed(void)
{
	int i;

	for (i = 0; i < (int)OPERATIONS; i++)
		if (options.operations[i] && !operations[i].store && !operations[i].load)
			return true;
	return false;
}

/* Gives each thread that takes part an equal part of the region. */
static void divide(int threads)
{
	static uint8_t *copies, *copied;
	const size_t room = options.length + (size_t)worker_count * BETWEEN_CLOCKS;
	size_t bytes = options.length / threads / GRAIN * GRAIN;
	int i;

	if (!bytes)
		fail(BAR_TOO_SMALL, "%llu bytes of BAR %d of %s are too few for %d threads: each needs %llu", options.length,
		     options.bar, device.address, threads, GRAIN);
	if (!copies && posix_memalign((void **)&copies, 4096, options.length))
		fail(SYSTEM, "no memory");
	if (!copied && copies_are_timed()) {
		if (posix_memalign((void **)&copied, 4096, room))
			fail(SYSTEM, "no memory");
		memset(copied, 0, room); /* or the first copies would wait for pages */
	}
	for (i = 0; i < threads; i++)
		workers[i].part = (struct part){
			.at = mapping + i * bytes,
			.copy = copies + i * bytes,
			.copied = copied ? copied + i * (bytes + BETWEEN_CLOCKS) : NULL,
			.bytes = bytes,
			.seed = word_of(options.seed, i),
		};
}

static void print_run(int number, const struct operation *operation, int threads)
{
	struct timespec start = workers[0].result.start, end = workers[0].result.end;
	const struct result *worst = &workers[0].result;
	unsigned long long bytes = 0, wrong = 0;
	bool located;
	int i;

	for (i = 0; i < threads; i++) {
		const struct result *one = &workers[i].result;

		bytes += one->passes * workers[i].part.bytes;
		wrong += one->wrong;
		start = seconds_between(&one->start, &start) > 0 ? one->start : start;
		end = seconds_between(&end, &one->end) > 0 ? one->end : end;
		if (one->wrong > worst->wrong || (one->wrong && worst->expected == worst->found))
			worst = one;
	}
	fprintf(out, "%s\n  \"%d\": {\"operation\": \"%s\", \"width\": %d, \"threads\": %d, \"bytes\": %llu, \"ns\": %.0f, "
	       "\"wrong\": %llu",
	       number ? "," : "", number, operation->name, operation->width, threads, bytes,
	       seconds_between(&start, &end) * 1e9, wrong);
	located = worst->expected != worst->found;
	if (located)
		fprintf(out, ", \"first\": %zu, \"expected\": %u, \"found\": %u", worst->first, worst->expected, worst->found);
	fprintf(out, "}");
	if (!wrong)
		return;
	if (located)
		fprintf(stderr, "pcie-bar: %s: %llu bytes are wrong, the first at offset %zu: 0x%02x instead of 0x%02x\n",
			operation->name, wrong, worst->first, worst->found, worst->expected);
	else
		fprintf(stderr, "pcie-bar: %s: the sum of the loads is wrong, and every byte was right when it was read again\n",
			operation->name);
}

static bool run(int number, const struct operation *operation, int threads)
{
	bool right = true;
	int i;

	divide(threads);
	task.operation = operation;
	task.threads = threads;
	pthread_barrier_wait(&go);
	pthread_barrier_wait(&go);
	wait_for_workers();
	if (stopped)
		fail(INTERRUPTED, "stopped by signal %d", (int)stopped);
	/* Wrong data of a device that is gone is no wrong data. */
	check_presence();
	print_run(number, operation, threads);
	for (i = 0; i < threads; i++)
		right = right && !workers[i].result.wrong;
	return right;
}

static bool run_all(void)
{
	bool right = true;
	int i, list, number = 0;

	for (list = 0; list < options.count_lists; list++)
		for (i = 0; i < (int)OPERATIONS; i++)
			if (options.operations[i])
				right = run(number++, &operations[i], options.counts[list]) && right;
	return right;
}

static void print_header(void)
{
	fprintf(out, "{\n\"program\": \"pcie-bar\", \"version\": \"%s\",\n", PROGRAM_VERSION);
	fprintf(out, "\"device\": \"%s\", \"vendor\": %u, \"id\": %u,\n", device.address, device.vendor, device.id);
	fprintf(out, "\"bar\": %d, \"bar_bytes\": %llu, \"prefetchable\": %s, \"write_combining\": %s,\n", options.bar, bar.bytes,
	       bar.prefetchable ? "true" : "false", options.write_combining ? "true" : "false");
	fprintf(out, "\"offset\": %llu, \"length\": %llu, \"seed\": %llu, \"verified\": %s,\n", options.offset, options.length,
	       options.seed, options.read_only ? "false" : "true");
	fprintf(out, "\"run\": {");
}

/* --- the command line --- */

static const char help[] =
	"Usage: pcie-bar [OPTION]... DEVICE\n"
	"Measures stores to and loads from a PCI function's memory BAR, and compares the data. Prints JSON.\n"
	"\n"
	"DEVICE is an address (0000:01:00.0) or vendor and device id (1af4:1110) of the only such function.\n"
	"WHAT THE BAR HOLDS IS LOST unless --read-only: name a device whose memory may be overwritten.\n"
	"\n"
	"  -b, --bar=N            BAR 0 to 5 (default: the largest memory BAR)\n"
	"  -w, --write-combining  map resourceN_wc, in which the CPU gathers stores (default: resourceN)\n"
	"  -o, --offset=BYTES     start of the region in the BAR, a multiple of 64 (default: 0)\n"
	"  -l, --length=BYTES     its length, a multiple of 64 (default: the rest, at most 1M)\n"
	"  -x, --operations=LIST  of store32 store64 store128 memset_io plain128 load32 load64 load128 memcpy_fromio\n"
	"                         (default: all; plain128 is a plain C loop, to compare store128 with)\n"
	"  -s, --seconds=S        length of each operation (default: 1)\n"
	"  -t, --threads=LIST     numbers of threads, in turn, each pinned to a CPU of its own (default: 1)\n"
	"  -c, --cpus=LIST        CPUs for the threads, like 2-3,5 (default: those it may run on)\n"
	"  -r, --read-only        only loads, of which nothing is compared\n"
	"  -f, --force            store although a kernel driver has the device\n"
	"  -S, --seed=N           of the data (default: 1)\n"
	"      --sysfs=DIR        where sysfs is mounted (default: /sys)\n"
	"      --help, --version\n"
	"\n"
	"Rates: bytes / ns of each run. Loads wait for an answer each, so their rate is latency: at 4 bytes and 1 us, 4 MB/s.\n"
	"Exit codes: 0 measured; 1 measured, data wrong; 2 usage; 3 no such device; 4 no such BAR; 5 BAR too small;\n"
	"6 no permission; 7 a driver has the device; 8 the device is gone; 9 something else of the system; 130 stopped by\n"
	"a signal.\n"
	"Example: pcie-bar --bar=2 --threads=1,2 --operations=store32,store128,load32,load128 1af4:1110\n";

static void parse_operations(char *text)
{
	char *rest = text, *name;
	size_t i;

	while ((name = strsep(&rest, ","))) {
		for (i = 0; i < OPERATIONS && strcmp(operations[i].name, name); i++)
			;
		if (i == OPERATIONS)
			usage("there is no operation \"%s\"", name);
		options.operations[i] = true;
	}
}

static void choose_operations(void)
{
	bool any = false;
	size_t i;

	for (i = 0; i < OPERATIONS; i++)
		any = any || options.operations[i];
	for (i = 0; i < OPERATIONS; i++) {
		if (options.operations[i] && options.read_only && operations[i].stores)
			usage("--read-only and %s contradict each other", operations[i].name);
		if (!any)
			options.operations[i] = !options.read_only || !operations[i].stores;
	}
}

static void parse_threads(char *text)
{
	char *rest = text, *one;

	options.count_lists = 0;
	while ((one = strsep(&rest, ","))) {
		if (options.count_lists == (int)(sizeof(options.counts) / sizeof(options.counts[0])))
			usage("--threads: too many numbers");
		options.counts[options.count_lists++] = number("--threads", one, 1, THREADS);
	}
}

static void parse_cpus(char *text)
{
	char *rest = text, *one, *dash;
	int cpu, first, last;

	CPU_ZERO(&options.cpus);
	while ((one = strsep(&rest, ","))) {
		dash = strchr(one, '-');
		if (dash)
			*dash = '\0';
		first = number("--cpus", one, 0, CPU_SETSIZE - 1);
		last = dash ? (int)number("--cpus", dash + 1, first, CPU_SETSIZE - 1) : first;
		for (cpu = first; cpu <= last; cpu++)
			CPU_SET(cpu, &options.cpus);
	}
}

static unsigned long long grain(const char *option, const char *text, unsigned long long least)
{
	unsigned long long value = number(option, text, least, 1ULL << 40);

	if (value % GRAIN)
		usage("%s %s: expected a multiple of %llu", option, text, GRAIN);
	return value;
}

enum { OPTION_SYSFS = 256, OPTION_HELP, OPTION_VERSION };

static void parse_option(int option)
{
	switch (option) {
	case 'b': options.bar = number("--bar", optarg, 0, BARS - 1); break;
	case 'w': options.write_combining = true; break;
	case 'o': options.offset = grain("--offset", optarg, 0); break;
	case 'l': options.length = grain("--length", optarg, GRAIN); break;
	case 'x': parse_operations(optarg); break;
	case 's': options.seconds = seconds_of("--seconds", optarg); break;
	case 't': parse_threads(optarg); break;
	case 'c': parse_cpus(optarg); break;
	case 'r': options.read_only = true; break;
	case 'f': options.force = true; break;
	case 'S': options.seed = number("--seed", optarg, 0, ~0ULL); break;
	case OPTION_SYSFS: options.sysfs = optarg; break;
	case OPTION_HELP: fputs(help, stdout); exit(MEASURED);
	case OPTION_VERSION: puts("pcie-bar " PROGRAM_VERSION); exit(MEASURED);
	default: fputs("pcie-bar: --help explains the options\n", stderr); exit(USAGE);
	}
}

static void parse(int count, char **arguments)
{
	static const struct option known[] = {
		{ "bar", required_argument, NULL, 'b' },
		{ "write-combining", no_argument, NULL, 'w' },
		{ "offset", required_argument, NULL, 'o' },
		{ "length", required_argument, NULL, 'l' },
		{ "operations", required_argument, NULL, 'x' },
		{ "seconds", required_argument, NULL, 's' },
		{ "threads", required_argument, NULL, 't' },
		{ "cpus", required_argument, NULL, 'c' },
		{ "read-only", no_argument, NULL, 'r' },
		{ "force", no_argument, NULL, 'f' },
		{ "seed", required_argument, NULL, 'S' },
		{ "sysfs", required_argument, NULL, OPTION_SYSFS },
		{ "help", no_argument, NULL, OPTION_HELP },
		{ "version", no_argument, NULL, OPTION_VERSION },
		{ 0 },
	};
	int option, i;

	sched_getaffinity(0, sizeof(options.cpus), &options.cpus);
	options.counts[options.count_lists++] = 1;
	while ((option = getopt_long(count, arguments, "b:wo:l:x:s:t:c:rfS:", known, NULL)) != -1)
		parse_option(option);
	if (optind != count - 1)
		usage(optind == count ? "which device?" : "one device at a time");
	options.device = arguments[optind];
	choose_operations();
	for (i = 0; i < options.count_lists; i++)
		worker_count = options.counts[i] > worker_count ? options.counts[i] : worker_count;
	if (worker_count > CPU_COUNT(&options.cpus))
		usage("%d threads need as many CPUs, and there are %d for them", worker_count, CPU_COUNT(&options.cpus));
}

int main(int count, char **arguments)
{
	const struct sigaction stop = { .sa_handler = on_stop };
	char *text;
	size_t size;
	bool right;

	parse(count, arguments);
	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
	signal(SIGBUS, on_bus_error);
	device_find(&device, options.sysfs, options.device);
	check_driver();
	choose_bar();
	choose_region();
	enable();
	map();
	check_presence();
	start_workers();
	out = open_memstream(&text, &size);
	if (!out)
		fail(SYSTEM, "no memory");
	print_header();
	right = run_all();
	fprintf(out, "\n}\n}\n");
	end_workers();
	if (fclose(out) || fwrite(text, 1, size, stdout) != size || fflush(stdout))
		fail_errno(SYSTEM, "the results cannot be written");
	return right ? MEASURED : DATA_WRONG;
}
