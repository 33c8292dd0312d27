// SPDX-License-Identifier: MIT
/*
 * nvme-health: prints an NVMe disk's SMART / Health Information (log page 2) as JSON, with the keys and units of
 * `nvme smart-log -o json`: temperature in kelvin, data units of 512 000 bytes. See nvme-health.1.
 *
 * Layout of the page: NVM Express Base Specification 2.0, figure 207. All numbers are little-endian.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#ifndef PROGRAM_VERSION
#define PROGRAM_VERSION "unknown"
#endif

enum { GET_LOG_PAGE = 0x02, HEALTH = 0x02, PAGE = 512, ALL_NAMESPACES = -1, TIMEOUT_MS = 10000 };
enum { PRINTED = 0, FAILED = 1, USAGE = 2 };

/* A field of the page: `bytes` long, at `offset`. */
static const struct field {
	const char *key;
	unsigned offset, bytes;
} fields[] = {
	{ "critical_warning", 0, 1 },
	{ "temperature", 1, 2 },
	{ "avail_spare", 3, 1 },
	{ "spare_thresh", 4, 1 },
	{ "percent_used", 5, 1 },
	{ "data_units_read", 32, 16 },
	{ "data_units_written", 48, 16 },
	{ "host_read_commands", 64, 16 },
	{ "host_write_commands", 80, 16 },
	{ "controller_busy_time", 96, 16 },
	{ "power_cycles", 112, 16 },
	{ "power_on_hours", 128, 16 },
	{ "unsafe_shutdowns", 144, 16 },
	{ "media_errors", 160, 16 },
	{ "num_err_log_entries", 176, 16 },
	{ "warning_temp_time", 192, 4 },
	{ "critical_comp_time", 196, 4 },
};

_Noreturn static void fail(const char *name, const char *reason)
{
	fprintf(stderr, "nvme-health: %s: %s\n", name, reason);
	exit(FAILED);
}

/* Reads the page from the disk by an admin command, which a disk or its controller's device takes. */
static void read_disk(int descriptor, const char *name, uint8_t page[PAGE])
{
	struct nvme_admin_cmd command = {
		.opcode = GET_LOG_PAGE,
		.nsid = (uint32_t)ALL_NAMESPACES,
		.addr = (uintptr_t)page,
		.data_len = PAGE,
		.cdw10 = HEALTH | (PAGE / 4 - 1) << 16,	/* how many words, less one */
		.timeout_ms = TIMEOUT_MS,
	};
	char reason[64];
	int status = ioctl(descriptor, NVME_IOCTL_ADMIN_CMD, &command);

	if (status < 0)
		fail(name, errno == ENOTTY ? "is no NVMe disk" : strerror(errno));
	if (status > 0) {
		snprintf(reason, sizeof(reason), "the disk refuses its health log (status 0x%x)", status);
		fail(name, reason);
	}
}

/* Reads a page that was stored in a file. */
static void read_file(int descriptor, const char *name, uint8_t page[PAGE])
{
	ssize_t got = read(descriptor, page, PAGE);

	if (got < 0)
		fail(name, strerror(errno));
	if (got != PAGE)
		fail(name, "is shorter than a health log, which has 512 bytes");
}

/* Prints a number of up to 128 bits in decimal. */
static void print_number(const uint8_t *bytes, unsigned count)
{
	char text[40], *start = text + sizeof(text) - 1;
	unsigned __int128 value = 0;

	while (count--)
		value = value << 8 | bytes[count];
	*start = '\0';
	do {
		*--start = (char)('0' + (int)(value % 10));
		value /= 10;
	} while (value);
	fputs(start, stdout);
}

static void print_page(const uint8_t page[PAGE])
{
	const unsigned count = sizeof(fields) / sizeof(fields[0]);
	unsigned index;

	puts("{");
	for (index = 0; index < count; index++) {
		printf("  \"%s\": ", fields[index].key);
		print_number(page + fields[index].offset, fields[index].bytes);
		puts(index + 1 < count ? "," : "");
	}
	puts("}");
	if (fflush(stdout))
		fail("standard output", strerror(errno));
}

int main(int argc, char **argv)
{
	static uint8_t page[PAGE] __attribute__((aligned(PAGE)));
	int stored = argc == 3 && !strcmp(argv[1], "--page");
	const char *name = argv[argc - 1];
	int descriptor;

	if (argc == 2 && !strcmp(name, "--version")) {
		puts("nvme-health " PROGRAM_VERSION);
		return PRINTED;
	}
	if (argc == 2 && !strcmp(name, "--help")) {
		puts("usage: nvme-health /dev/nvme0n1      print the disk's health as JSON\n"
		     "       nvme-health --page FILE       the same of a health log (512 bytes) in a file");
		return PRINTED;
	}
	if (!stored && (argc != 2 || name[0] == '-')) {
		fputs("usage: nvme-health DISK | --page FILE | --version | --help\n", stderr);
		return USAGE;
	}
	descriptor = open(name, O_RDONLY | O_CLOEXEC);
	if (descriptor < 0)
		fail(name, strerror(errno));
	(stored ? read_file : read_disk)(descriptor, name, page);
	print_page(page);
	return PRINTED;
}
