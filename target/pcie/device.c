// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"

/* include/linux/ioport.h, as the file `resource` prints them */
#define IORESOURCE_IO 0x100
#define IORESOURCE_MEM 0x200
#define IORESOURCE_PREFETCH 0x2000

static void path_of(const struct device *device, const char *name, char *path, size_t size)
{
	if ((size_t)snprintf(path, size, "%s/%s", device->path, name) >= size)
		fail(USAGE, "the path of sysfs is too long");
}

int device_read(const struct device *device, const char *name, char *text, size_t size)
{
	char path[768];
	ssize_t got;
	int file;

	path_of(device, name, path, sizeof(path));
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return -1;
	got = read(file, text, size - 1);
	close(file);
	if (got < 0)
		return -1;
	text[got] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return 0;
}

int device_write(const struct device *device, const char *name, const char *text)
{
	char path[768];
	size_t length = strlen(text);
	ssize_t put;
	int file, reason;

	path_of(device, name, path, sizeof(path));
	file = open(path, O_WRONLY | O_CLOEXEC);
	if (file < 0)
		return -1;
	put = write(file, text, length);
	reason = errno;
	close(file);
	errno = reason;
	return put == (ssize_t)length ? 0 : -1;
}

static unsigned int attribute(const struct device *device, const char *name)
{
	char text[32], *end;
	unsigned long value;

	if (device_read(device, name, text, sizeof(text)))
		fail_errno(NO_DEVICE, "%s: its %s cannot be read", device->address, name);
	value = strtoul(text, &end, 16);
	if (end == text || *end)
		fail(NO_DEVICE, "%s: its %s is \"%s\"", device->address, name, text);
	return value;
}

static void set_address(struct device *device, const char *address)
{
	snprintf(device->address, sizeof(device->address), "%.15s", address);
	if ((size_t)snprintf(device->path, sizeof(device->path), "%s/bus/pci/devices/%s", device->sysfs,
			     device->address) >= sizeof(device->path))
		fail(USAGE, "the path of sysfs is too long");
}

static void find_by_ids(struct device *device, unsigned int vendor, unsigned int id)
{
	struct device found = *device;
	struct dirent *entry;
	char path[512];
	int count = 0;
	DIR *all;

	snprintf(path, sizeof(path), "%s/bus/pci/devices", device->sysfs);
	all = opendir(path);
	if (!all)
		fail_errno(NO_DEVICE, "there is no PCI bus (%s)", path);
	while ((entry = readdir(all))) {
		if (entry->d_name[0] == '.')
			continue;
		set_address(&found, entry->d_name);
		if (attribute(&found, "vendor") != vendor || attribute(&found, "device") != id)
			continue;
		if (count++)
			fail(USAGE, "%s and %s both are %04x:%04x: name one by its address", device->address,
			     found.address, vendor, id);
		set_address(device, found.address);
	}
	closedir(all);
	if (!count)
		fail(NO_DEVICE, "no PCI device is %04x:%04x", vendor, id);
}

void device_find(struct device *device, const char *sysfs, const char *name)
{
	unsigned int domain = 0, bus, slot, function, vendor, id;
	char address[16];
	int end = 0;

	*device = (struct device){ .sysfs = sysfs };
	if ((sscanf(name, "%4x:%2x:%2x.%1u%n", &domain, &bus, &slot, &function, &end) == 4 && !name[end]) ||
	    (sscanf(name, "%2x:%2x.%1u%n", &bus, &slot, &function, &end) == 3 && !name[end])) {
		snprintf(address, sizeof(address), "%04x:%02x:%02x.%u", domain & 0xffff, bus & 0xff, slot & 0xff,
			 function & 7);
		set_address(device, address);
		if (access(device->path, F_OK))
			fail(NO_DEVICE, "there is no PCI device %s", device->address);
	} else if (sscanf(name, "%4x:%4x%n", &vendor, &id, &end) == 2 && !name[end]) {
		find_by_ids(device, vendor, id);
	} else {
		usage("\"%s\" is neither an address (0000:01:00.0) nor ids (1af4:1110)", name);
	}
	device->vendor = attribute(device, "vendor");
	device->id = attribute(device, "device");
	device->class = attribute(device, "class");
}

struct bar device_bar(const struct device *device, int index)
{
	uint64_t start, end, flags;
	char path[768], line[128];
	FILE *file;
	bool read;
	int at;

	path_of(device, "resource", path, sizeof(path));
	file = fopen(path, "re");
	if (!file)
		fail_errno(NO_DEVICE, "%s: its resources cannot be read", device->address);
	for (at = 0, read = true; at <= index && read; at++)
		read = fgets(line, sizeof(line), file);
	fclose(file);
	if (!read || sscanf(line, "%" SCNx64 " %" SCNx64 " %" SCNx64, &start, &end, &flags) != 3)
		fail(NO_DEVICE, "%s: its file resource is not what it should be", device->address);
	return (struct bar){
		.bytes = end > start ? end - start + 1 : 0,
		.memory = flags & IORESOURCE_MEM,
		.prefetchable = flags & IORESOURCE_PREFETCH,
	};
}

void device_driver(const struct device *device, char *name, size_t size)
{
	char path[768], target[512];
	const char *last;
	ssize_t length;

	path_of(device, "driver", path, sizeof(path));
	length = readlink(path, target, sizeof(target) - 1);
	target[length > 0 ? length : 0] = '\0';
	last = strrchr(target, '/');
	snprintf(name, size, "%s", last ? last + 1 : target);
}

bool device_answers(const struct device *device)
{
	char path[768];
	uint32_t ids;
	ssize_t got;
	int file;

	path_of(device, "config", path, sizeof(path));
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	got = pread(file, &ids, sizeof(ids), 0);
	close(file);
	return got == sizeof(ids) && ids != UINT32_MAX;
}
