// SPDX-License-Identifier: MIT
/*
 * pcie-edu: DMA with every byte compared, and the latency of MSIs, with QEMU's device edu (docs/specs/edu.rst of QEMU).
 *
 * edu moves at most 4096 bytes at a time and takes 100 ms of the machine's time for it, so rates mean nothing. QEMU 7.2
 * ends the whole machine when a transfer goes to the last byte of the device's buffer (hw/misc/edu.c, edu_check_range),
 * so transfers here end 8 bytes earlier and are checked before the device is told.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "fail.h"
#include "vfio.h"

#ifndef PROGRAM_VERSION
#define PROGRAM_VERSION "unknown"
#endif

#define VENDOR 0x1234
#define ID 0x11e8
#define IDENTITY 0x010000edu

/* Registers. Below 0x80 the device takes 32 bits at a time only. */
enum { IDENTITY_AT = 0x00, INVERSE_AT = 0x04, STATUS_AT = 0x24, RAISE_AT = 0x60, ACKNOWLEDGE_AT = 0x64 };
enum { SOURCE_AT = 0x80, DESTINATION_AT = 0x88, COUNT_AT = 0x90, COMMAND_AT = 0x98 };
enum { DMA_RUN = 1, DMA_TO_RAM = 2 };

#define BUFFER_AT 0x40000ULL /* of the device's buffer, as the device's own DMA sees it */
#define BUFFER 4088	     /* bytes of it that are used */
#define PAGE 4096
#define PAGES 3		     /* data lies in the middle one; the others are guards */
#define SENT_IOVA 0x00100000ULL
#define RECEIVED_IOVA 0x00200000ULL /* both below 2^28: by default edu drops higher bits of an address */
#define GUARD 0xa5
#define PATIENCE_S 1		    /* for an MSI */
#define DMA_PATIENCE_S 5
#define STACK (128 << 10)

static struct {
	const char *sysfs, *device;
	double seconds;		/* of DMA */
	unsigned long long seed, interrupts, interval_us, range_us;
	int sizes[16], size_count;
	int cpu, priority, raise_priority;
	bool nanoseconds, until_ended;
} options = {
	.sysfs = "/sys", .device = "1234:11e8", .seconds = 1.0, .seed = 1, .interrupts = 1000, .interval_us = 1000,
	.range_us = 1000, .sizes = { 1, 64, 513, BUFFER }, .size_count = 4, .cpu = -1, .priority = 90, .raise_priority = 40,
};

static struct device device;
static struct vfio vfio;
static volatile sig_atomic_t stopped;

static void on_signal(int signal)
{
	stopped = signal;
}

static void on_bus_error(int signal)
{
	static const char text[] = "pcie-edu: the device is gone: an access to its BAR raised SIGBUS\n";

	(void)signal;
	_exit(write(STDERR_FILENO, text, sizeof(text) - 1) < 0 ? SYSTEM : DEVICE_GONE);
}

static uint32_t get(unsigned int at)
{
	return *(volatile uint32_t *)(vfio.bar + at);
}

static void put(unsigned int at, uint32_t value)
{
	*(volatile uint32_t *)(vfio.bar + at) = value;
}

static void put_wide(unsigned int at, uint64_t value)
{
	*(volatile uint64_t *)(vfio.bar + at) = value;
}

static void end_if_stopped(void)
{
	if (stopped && !options.until_ended)
		fail(INTERRUPTED, "stopped by signal %d", (int)stopped);
	if (vfio_wanted_back(&vfio))
		fail(DEVICE_GONE, "%s is being removed: the kernel wants it back", device.address);
}

static void check_alive(void)
{
	const uint32_t word = 0x12345678 ^ (uint32_t)options.seed;
	uint32_t identity = get(IDENTITY_AT), inverse;

	if (identity == UINT32_MAX)
		fail(DEVICE_GONE, "%s is gone: its registers read as ones", device.address);
	if (identity != IDENTITY)
		fail(NOT_ALIVE, "%s says that it is 0x%08x, not 0x%08x", device.address, identity, IDENTITY);
	put(INVERSE_AT, word);
	inverse = get(INVERSE_AT);
	if (inverse != ~word)
		fail(NOT_ALIVE, "%s does not live: it inverts 0x%08x to 0x%08x", device.address, word, inverse);
}

static struct timespec now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time;
}

static int64_t ns_between(struct timespec start, struct timespec end)
{
	return (end.tv_sec - start.tv_sec) * 1000000000LL + end.tv_nsec - start.tv_nsec;
}

/* --- DMA --- */

static struct {
	uint8_t *sent, *received; /* PAGES pages each */
	uint8_t holds[BUFFER];	  /* what the device's buffer should hold */
	unsigned long long transfers, bytes, wrong, guards;
} dma;

/* xorshift64*: Vigna, An experimental exploration of Marsaglia's xorshift generators, scrambled (2016). */
static uint64_t random_word(void)
{
	static uint64_t state;

	if (!state)
		state = options.seed * 0x9e3779b97f4a7c15u | 1;
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1du;
}

static void check_bounds(size_t offset, size_t bytes)
{
	if (!bytes || offset > BUFFER || bytes > BUFFER - offset)
		fail(USAGE, "%zu bytes at %zu are outside of the device's buffer: not started", bytes, offset);
}

static void transfer(uint64_t source, uint64_t destination, size_t bytes, uint32_t command)
{
	static const struct timespec pause = { .tv_nsec = 1000000 };
	struct timespec start = now();

	put_wide(SOURCE_AT, source);
	put_wide(DESTINATION_AT, destination);
	put_wide(COUNT_AT, bytes);
	put_wide(COMMAND_AT, command | DMA_RUN);
	while (get(COMMAND_AT) & DMA_RUN) {
		end_if_stopped();
		if (ns_between(start, now()) > DMA_PATIENCE_S * 1000000000LL) {
			check_alive();
			fail(NO_DMA, "a transfer of %zu bytes did not end within %d s", bytes, DMA_PATIENCE_S);
		}
		nanosleep(&pause, NULL);
	}
	dma.transfers++;
	dma.bytes += bytes;
}

/* `at` counts from the data's first byte; it is negative for a guard before that. */
static void tell_wrong(const char *what, ptrdiff_t at, uint8_t expected, uint8_t found)
{
	if (dma.wrong + dma.guards == 1)
		fprintf(stderr, "pcie-edu: %s: byte %td is 0x%02x instead of 0x%02x\n", what, at, found, expected);
}

/* Sends `bytes` bytes of a new pattern to the device's buffer. */
static void send_to_device(size_t offset, size_t bytes)
{
	uint8_t *data = dma.sent + PAGE;
	size_t i;

	check_bounds(offset, bytes);
	for (i = 0; i < bytes; i++)
		data[i] = dma.holds[offset + i] = random_word() >> 56;
	transfer(SENT_IOVA + PAGE, BUFFER_AT + offset, bytes, 0);
	for (i = 0; i < bytes; i++)
		if (data[i] != dma.holds[offset + i] && ++dma.wrong)
			tell_wrong("what was sent has changed", i, dma.holds[offset + i], data[i]);
}

/* Has the device write a part of its buffer to RAM; everything around it must stay as it is. */
static void receive(size_t offset, size_t bytes)
{
	const size_t start = PAGE + 8; /* so that there are guards on the data's own page on both sides */
	size_t i;

	check_bounds(offset, bytes);
	memset(dma.received, GUARD, PAGES * PAGE);
	/* Every byte differs from what must come, so that one that was not written shows. */
	for (i = 0; i < bytes; i++)
		dma.received[start + i] = ~dma.holds[offset + i];
	transfer(BUFFER_AT + offset, RECEIVED_IOVA + start, bytes, DMA_TO_RAM);
	for (i = 0; i < PAGES * PAGE; i++) {
		bool inside = i >= start && i < start + bytes;
		uint8_t expected = inside ? dma.holds[offset + i - start] : GUARD;

		if (dma.received[i] == expected)
			continue;
		(inside ? &dma.wrong : &dma.guards)[0]++;
		tell_wrong(inside ? "what came is not what was sent" : "a guard was overwritten",
			   (ptrdiff_t)i - (ptrdiff_t)start, expected, dma.received[i]);
	}
}

static void one_round(void)
{
	int i;

	for (i = 0; i < options.size_count; i++) {
		size_t bytes = options.sizes[i];
		size_t offset = bytes == BUFFER ? 0 : random_word() % (BUFFER - bytes + 1);

		send_to_device(offset, bytes);
		receive(offset, bytes);
	}
	/* All of it, so that a transfer that wrote beside its place in the device shows. */
	receive(0, BUFFER);
}

static enum status run_dma(void)
{
	struct timespec start = now();
	unsigned long long rounds = 0;

	dma.sent = vfio_map(&vfio, PAGES * PAGE, SENT_IOVA);
	dma.received = vfio_map(&vfio, PAGES * PAGE, RECEIVED_IOVA);
	send_to_device(0, BUFFER);
	do {
		one_round();
		rounds++;
	} while (options.until_ended ? !stopped : ns_between(start, now()) < options.seconds * 1e9);
	check_alive();
	printf("{\n\"program\": \"pcie-edu\", \"version\": \"%s\", \"test\": \"dma\", \"device\": \"%s\",\n", PROGRAM_VERSION,
	       device.address);
	printf("\"seed\": %llu, \"rounds\": %llu, \"transfers\": %llu, \"bytes\": %llu, \"ns\": %lld,\n", options.seed, rounds,
	       dma.transfers, dma.bytes, (long long)ns_between(start, now()));
	printf("\"wrong\": %llu, \"guards\": %llu\n}\n", dma.wrong, dma.guards);
	return dma.wrong + dma.guards ? DATA_WRONG : MEASURED;
}

/* --- MSI --- */

static struct {
	int eventfd;
	atomic_bool ending;
	pthread_t thread;
	sem_t ready, handled;
	struct timespec raised, woken;
	uint64_t events;
	uint32_t status;
	unsigned int *buckets;
	unsigned long long range, count, spurious, overflows;
	int64_t least, most, sum;
} msi;

/* What a driver's handler would be: from here on it is late. */
static void *handle(void *nothing)
{
	sem_post(&msi.ready);
	while (read(msi.eventfd, &msi.events, sizeof(msi.events)) == sizeof(msi.events)) {
		msi.woken = now();
		if (msi.ending)
			break;
		msi.status = get(STATUS_AT);
		put(ACKNOWLEDGE_AT, msi.status);
		sem_post(&msi.handled);
	}
	return nothing;
}

static void make_realtime(pthread_t thread, int priority)
{
	struct sched_param parameters = { .sched_priority = priority };
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(options.cpu, &one);
	errno = pthread_setaffinity_np(thread, sizeof(one), &one);
	if (errno)
		fail_errno(USAGE, "CPU %d cannot be used", options.cpu);
	errno = pthread_setschedparam(thread, SCHED_FIFO, &parameters);
	if (errno)
		fail_errno(SYSTEM, "SCHED_FIFO %d cannot be had", priority);
}

static void prepare_msi(void)
{
	pthread_attr_t attributes;

	msi.range = options.range_us * (options.nanoseconds ? 1000 : 1);
	msi.buckets = calloc(msi.range, sizeof(msi.buckets[0]));
	msi.eventfd = eventfd(0, EFD_CLOEXEC);
	if (!msi.buckets || msi.eventfd < 0)
		fail_errno(SYSTEM, "no memory, or no eventfd (CONFIG_EVENTFD)");
	vfio_msi(&vfio, msi.eventfd);
	sem_init(&msi.ready, 0, 0);
	sem_init(&msi.handled, 0, 0);
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		fail_errno(SYSTEM, "memory cannot be locked");
	memset(msi.buckets, 0, msi.range * sizeof(msi.buckets[0]));
	/* All of a stack is locked, so it should not be 8 MiB. */
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	errno = pthread_create(&msi.thread, &attributes, handle, NULL);
	if (errno)
		fail_errno(SYSTEM, "no thread can be started");
	make_realtime(msi.thread, options.priority);
	/* Below the kernel's interrupt threads (50), or on one CPU they would wait until this thread sleeps. */
	make_realtime(pthread_self(), options.raise_priority);
	sem_wait(&msi.ready);
}

static void end_handler(void)
{
	msi.ending = true;
	if (eventfd_write(msi.eventfd, 1))
		fail_errno(SYSTEM, "the eventfd cannot be written");
	pthread_join(msi.thread, NULL);
}

static void count_latency(void)
{
	int64_t value = ns_between(msi.raised, msi.woken) / (options.nanoseconds ? 1 : 1000);

	msi.least = !msi.count || value < msi.least ? value : msi.least;
	msi.most = value > msi.most ? value : msi.most;
	msi.sum += value;
	msi.count++;
	msi.spurious += msi.events - 1;
	if ((unsigned long long)value < msi.range)
		msi.buckets[value]++;
}

/* Raises one interrupt and waits for its handler; false when it did not come in time. */
static bool one_interrupt(uint32_t value)
{
	struct timespec until;

	msi.raised = now();
	put(RAISE_AT, value);
	until = now();
	until.tv_sec += PATIENCE_S;
	while (sem_clockwait(&msi.handled, CLOCK_MONOTONIC, &until)) {
		if (errno == ETIMEDOUT)
			return false;
		end_if_stopped();
	}
	if (!(msi.status & value)) {
		check_alive();
		fail(NOT_ALIVE, "interrupt 0x%x was raised, and the device's status is 0x%x", value, msi.status);
	}
	count_latency();
	return true;
}

static void print_msi(unsigned long long lost)
{
	unsigned long long i;
	const char *comma = "";

	printf("{\n\"program\": \"pcie-edu\", \"version\": \"%s\", \"test\": \"msi\", \"device\": \"%s\",\n", PROGRAM_VERSION,
	       device.address);
	printf("\"asked\": %llu, \"interval_us\": %llu, \"cpu\": %d, \"resolution_in_ns\": %d, \"range\": %llu,\n",
	       options.interrupts, options.interval_us, options.cpu, options.nanoseconds ? 1 : 1000, msi.range);
	printf("\"cycles\": %llu, \"lost\": %llu, \"spurious\": %llu, \"min\": %lld, \"avg\": %.2f, \"max\": %lld,\n", msi.count,
	       lost, msi.spurious, (long long)msi.least, msi.count ? (double)msi.sum / msi.count : 0.0, (long long)msi.most);
	printf("\"histogram\": {");
	for (i = 0; i < msi.range; i++) {
		if (!msi.buckets[i])
			continue;
		printf("%s\"%llu\": %u", comma, i, msi.buckets[i]);
		comma = ", ";
	}
	printf("}\n}\n");
}

static enum status run_msi(void)
{
	struct timespec next;
	unsigned long long i;
	bool came = true;

	prepare_msi();
	next = now();
	for (i = 0; i < options.interrupts && came; i++) {
		next.tv_nsec += options.interval_us * 1000;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) == EINTR)
			;
		end_if_stopped();
		came = one_interrupt(1 + i % 0xfe);
	}
	end_handler();
	check_alive();
	print_msi(!came);
	if (!came)
		fprintf(stderr, "pcie-edu: MSI %llu of %llu did not come within %d s (status of the device 0x%x)\n", i,
			options.interrupts, PATIENCE_S, get(STATUS_AT));
	return came ? MEASURED : NO_INTERRUPT;
}

/* --- the command line --- */

static const char help[] =
	"Usage: pcie-edu dma [OPTION]... [DEVICE]\n"
	"       pcie-edu msi [OPTION]... [DEVICE]\n"
	"Tests DMA, or measures the latency of MSIs, with QEMU's device edu behind an IOMMU, by vfio-pci. Prints JSON.\n"
	"\n"
	"DEVICE is an address (0000:00:09.0) or vendor and device id (default: 1234:11e8) of the only such function. It is\n"
	"taken from its driver and given back. Its IOMMU group must hold no other function.\n"
	"\n"
	"dma: sends and receives blocks of random bytes, compares every byte, and guards around them\n"
	"  -s, --seconds=S          at least so long, in whole rounds (default: 1; a transfer takes 0.1)\n"
	"  -e, --until-ended        go on until SIGTERM or SIGINT, then end the round and print what was measured\n"
	"  -z, --sizes=LIST         bytes of each block, 1 to 4088 (default: 1,64,513,4088)\n"
	"\n"
	"msi: raises interrupts; the latency is from before the raise until a real-time thread has read its eventfd\n"
	"  -n, --interrupts=N       how many (default: 1000)\n"
	"  -i, --interval=US        one in so many microseconds (default: 1000)\n"
	"  -p, --priority=P         SCHED_FIFO priority of the thread that is woken (default: 90)\n"
	"  -P, --raise-priority=P   of the one that raises; below those of interrupt threads (default: 40)\n"
	"  -a, --cpu=N              CPU of both (default: the first that it may run on)\n"
	"  -R, --range=US           longer latencies are counted as overflow (default: 1000)\n"
	"  -N, --nsecs              histogram in nanoseconds (default: microseconds)\n"
	"\n"
	"  -S, --seed=N             of the data (default: 1)\n"
	"      --sysfs=DIR          where sysfs is mounted (default: /sys)\n"
	"      --help, --version\n"
	"\n"
	"Exit codes: 0 measured; 1 data wrong; 2 usage; 3 no such device; 4 its BAR cannot be mapped; 6 no permission;\n"
	"7 in use, or its IOMMU group is shared; 8 the device is gone; 9 no IOMMU, no VFIO or something else of the system;\n"
	"10 an MSI did not come within a second; 11 a transfer did not end within 5; 12 it is no living edu.\n";

static void parse_sizes(char *text)
{
	char *rest = text, *one;

	options.size_count = 0;
	while ((one = strsep(&rest, ","))) {
		if (options.size_count == (int)(sizeof(options.sizes) / sizeof(options.sizes[0])))
			usage("--sizes: too many numbers");
		options.sizes[options.size_count++] = number("--sizes", one, 1, BUFFER);
	}
}

enum { OPTION_SYSFS = 256, OPTION_HELP, OPTION_VERSION };

static void parse_option(int option)
{
	switch (option) {
	case 's': options.seconds = seconds_of("--seconds", optarg); break;
	case 'e': options.until_ended = true; break;
	case 'z': parse_sizes(optarg); break;
	case 'n': options.interrupts = number("--interrupts", optarg, 1, 1000000000); break;
	case 'i': options.interval_us = number("--interval", optarg, 1, 1000000); break;
	case 'p': options.priority = number("--priority", optarg, 1, 99); break;
	case 'P': options.raise_priority = number("--raise-priority", optarg, 1, 99); break;
	case 'a': options.cpu = number("--cpu", optarg, 0, CPU_SETSIZE - 1); break;
	case 'R': options.range_us = number("--range", optarg, 1, 1000000); break;
	case 'N': options.nanoseconds = true; break;
	case 'S': options.seed = number("--seed", optarg, 0, ~0ULL); break;
	case OPTION_SYSFS: options.sysfs = optarg; break;
	case OPTION_HELP: fputs(help, stdout); exit(MEASURED);
	case OPTION_VERSION: puts("pcie-edu " PROGRAM_VERSION); exit(MEASURED);
	default: fputs("pcie-edu: --help explains the options\n", stderr); exit(USAGE);
	}
}

static enum status (*parse(int count, char **arguments))(void)
{
	static const struct option known[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "until-ended", no_argument, NULL, 'e' },
		{ "sizes", required_argument, NULL, 'z' },
		{ "interrupts", required_argument, NULL, 'n' },
		{ "interval", required_argument, NULL, 'i' },
		{ "priority", required_argument, NULL, 'p' },
		{ "raise-priority", required_argument, NULL, 'P' },
		{ "cpu", required_argument, NULL, 'a' },
		{ "range", required_argument, NULL, 'R' },
		{ "nsecs", no_argument, NULL, 'N' },
		{ "seed", required_argument, NULL, 'S' },
		{ "sysfs", required_argument, NULL, OPTION_SYSFS },
		{ "help", no_argument, NULL, OPTION_HELP },
		{ "version", no_argument, NULL, OPTION_VERSION },
		{ 0 },
	};
	cpu_set_t mine;
	int option;

	while ((option = getopt_long(count, arguments, "s:ez:n:i:p:P:a:R:NS:", known, NULL)) != -1)
		parse_option(option);
	sched_getaffinity(0, sizeof(mine), &mine);
	if (options.cpu >= 0 && !CPU_ISSET(options.cpu, &mine))
		usage("CPU %d is none that it may run on", options.cpu);
	while (options.cpu < 0 || !CPU_ISSET(options.cpu, &mine))
		options.cpu++;
	if (options.raise_priority >= options.priority)
		usage("--raise-priority must be below --priority, or it delays what it measures");
	if (optind == count || count - optind > 2)
		usage("expected \"dma\" or \"msi\", and at most one device");
	if (optind == count - 2)
		options.device = arguments[optind + 1];
	if (!strcmp(arguments[optind], "dma"))
		return run_dma;
	if (!strcmp(arguments[optind], "msi")) {
		if (options.until_ended)
			usage("--until-ended is for dma: msi has a number of interrupts");
		return run_msi;
	}
	usage("\"%s\" is neither \"dma\" nor \"msi\"", arguments[optind]);
}

int main(int count, char **arguments)
{
	enum status (*test)(void) = parse(count, arguments);
	const struct sigaction stop = { .sa_handler = on_signal };
	enum status status;

	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
	signal(SIGBUS, on_bus_error);
	device_find(&device, options.sysfs, options.device);
	if (device.vendor != VENDOR || device.id != ID)
		fail(NO_DEVICE, "%s is %04x:%04x, no edu (1234:11e8)", device.address, device.vendor, device.id);
	vfio_take(&vfio, &device);
	check_alive();
	status = test();
	if (fflush(stdout) || ferror(stdout))
		fail_errno(SYSTEM, "the results cannot be written");
	return status;
}
