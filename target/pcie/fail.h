/* SPDX-License-Identifier: MIT */
/* How these programs end when they cannot measure: one sentence on standard error, and an exit code that says why. */
#ifndef RTGATE_FAIL_H
#define RTGATE_FAIL_H

/* pcie-bar.1 and pcie-edu.1 list them; rtgate's parsers know them. */
enum status {
	MEASURED = 0,
	DATA_WRONG = 1,		/* measured, and what was read is not what was written */
	USAGE = 2,
	NO_DEVICE = 3,
	NO_BAR = 4,
	BAR_TOO_SMALL = 5,
	NO_PERMISSION = 6,
	IN_USE = 7,		/* a kernel driver has the device, or its IOMMU group is shared */
	DEVICE_GONE = 8,
	SYSTEM = 9,		/* the kernel lacks something, or refused something for another reason */
	NO_INTERRUPT = 10,
	NO_DMA = 11,		/* a transfer did not end */
	NOT_ALIVE = 12,		/* the device does not answer as its kind does */
	INTERRUPTED = 130,
};

/* Ends the program; exit handlers run. */
_Noreturn void fail(enum status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same, with the kernel's reason; EACCES and EPERM turn any status into NO_PERMISSION. */
_Noreturn void fail_errno(enum status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Says what is wrong with the command line, and where help is. */
_Noreturn void usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A whole number of a command line, decimal or 0x..., with K or M for KiB and MiB. */
unsigned long long number(const char *option, const char *text, unsigned long long least, unsigned long long most);

/* A length of time of a command line: more than 0, at most a day. */
double seconds_of(const char *option, const char *text);

#endif
