/* SPDX-License-Identifier: MIT */
/* A PCI function as sysfs shows it. */
#ifndef RTGATE_DEVICE_H
#define RTGATE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#define BARS 6

struct device {
	const char *sysfs;	/* where sysfs is mounted */
	char address[16];	/* domain:bus:device.function */
	char path[512];		/* of the function in sysfs */
	unsigned int vendor, id, class;
};

struct bar {
	unsigned long long bytes;
	bool memory;		/* not I/O ports */
	bool prefetchable;
};

/* Finds a function by its address ([DOMAIN:]BUS:DEVICE.FUNCTION) or as the only one with these ids (VENDOR:DEVICE). */
void device_find(struct device *device, const char *sysfs, const char *name);

/* Reads what kind of resource BAR `index` is; one that the function does not have has 0 bytes. */
struct bar device_bar(const struct device *device, int index);

/* The name of the kernel driver that has the function, empty without one. */
void device_driver(const struct device *device, char *name, size_t size);

/* Whether configuration space still answers: one that is gone reads as ones, or its files are. */
bool device_answers(const struct device *device);

/* Reads or writes one of the function's files, `name` relative to its directory; -1 with errno when it cannot. */
int device_read(const struct device *device, const char *name, char *text, size_t size);
int device_write(const struct device *device, const char *name, const char *text);

#endif
