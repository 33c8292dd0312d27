// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "vfio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"

#define DRIVER "vfio-pci"
#define BRIDGE 0x0604 /* class and subclass; VFIO tolerates bridges that the kernel keeps */

static struct vfio *taken;

static int write_bus(const struct device *device, const char *name, const char *text)
{
	char relative[128];

	/* The function's directory is a link; `..` would lead along what it points to. */
	snprintf(relative, sizeof(relative), "subsystem/%s", name);
	return device_write(device, relative, text);
}

/* --- the IOMMU group --- */

/* The number of its group; -1 without one. */
static int group_number(const struct device *device)
{
	char path[640], target[512];
	ssize_t length;

	snprintf(path, sizeof(path), "%s/iommu_group", device->path);
	length = readlink(path, target, sizeof(target) - 1);
	if (length < 0)
		return -1;
	target[length] = '\0';
	return atoi(strrchr(target, '/') ? strrchr(target, '/') + 1 : target);
}

static void refuse_shared(const struct device *device)
{
	struct device other = { .sysfs = device->sysfs };
	struct dirent *entry;
	char path[640], driver[64];
	DIR *group;

	snprintf(path, sizeof(path), "%s/iommu_group/devices", device->path);
	group = opendir(path);
	if (!group)
		fail_errno(SYSTEM, "the IOMMU group of %s cannot be read", device->address);
	while ((entry = readdir(group))) {
		if (entry->d_name[0] == '.' || !strcmp(entry->d_name, device->address))
			continue;
		device_find(&other, device->sysfs, entry->d_name);
		if (other.class >> 8 == BRIDGE)
			continue;
		device_driver(&other, driver, sizeof(driver));
		fail(IN_USE, "IOMMU group %d holds %s (%04x:%04x, driver %s) beside %s: their DMA cannot be told apart",
		     group_number(device), other.address, other.vendor, other.id, driver[0] ? driver : "none",
		     device->address);
	}
	closedir(group);
}

/* --- the driver --- */

static void give_back(void)
{
	if (!taken)
		return;
	/* The driver lets go of a function only when nobody has it open or mapped: unbinding would wait for ever. */
	if (taken->bar)
		munmap((void *)taken->bar, taken->bar_bytes);
	close(taken->function);
	close(taken->group);
	close(taken->container);
	device_write(taken->device, "driver_override", "\n");
	device_write(taken->device, "driver/unbind", taken->device->address);
	if (taken->former[0])
		write_bus(taken->device, "drivers_probe", taken->device->address);
	taken = NULL;
}

static void bind(struct vfio *vfio)
{
	struct device *device = vfio->device;
	char path[640], driver[64];

	snprintf(path, sizeof(path), "%s/bus/pci/drivers/" DRIVER, device->sysfs);
	if (access(path, F_OK))
		fail(SYSTEM, "the kernel has no " DRIVER " (CONFIG_VFIO_PCI)");
	device_driver(device, vfio->former, sizeof(vfio->former));
	if (!strcmp(vfio->former, DRIVER))
		return; /* whoever gave it to this driver wants it there afterwards, too */
	taken = vfio;
	atexit(give_back);
	if (device_write(device, "driver_override", DRIVER))
		fail_errno(SYSTEM, "%s cannot be meant for " DRIVER, device->address);
	if (vfio->former[0] && device_write(device, "driver/unbind", device->address))
		fail_errno(IN_USE, "%s cannot be taken from its driver %s", device->address, vfio->former);
	if (write_bus(device, "drivers_probe", device->address))
		fail_errno(SYSTEM, "%s cannot be given to " DRIVER, device->address);
	device_driver(device, driver, sizeof(driver));
	if (strcmp(driver, DRIVER) && group_number(device) < 0)
		fail(SYSTEM, "%s is behind no IOMMU: its DMA could reach all memory (is there one, and CONFIG_ARM_SMMU_V3, or "
			     "CONFIG_INTEL_IOMMU and intel_iommu=on?)", device->address);
	if (strcmp(driver, DRIVER))
		fail(SYSTEM, DRIVER " does not take %s (see the kernel's log)", device->address);
}

/* --- VFIO --- */

static void open_group(struct vfio *vfio)
{
	struct vfio_group_status status = { .argsz = sizeof(status) };
	char path[64];

	vfio->container = open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC);
	if (vfio->container < 0)
		fail_errno(SYSTEM, "VFIO cannot be opened (/dev/vfio/vfio)");
	if (ioctl(vfio->container, VFIO_GET_API_VERSION) != VFIO_API_VERSION ||
	    ioctl(vfio->container, VFIO_CHECK_EXTENSION, VFIO_TYPE1v2_IOMMU) != 1)
		fail(SYSTEM, "the kernel's VFIO has no IOMMU of type 1 (CONFIG_VFIO_IOMMU_TYPE1)");
	snprintf(path, sizeof(path), "/dev/vfio/%d", group_number(vfio->device));
	vfio->group = open(path, O_RDWR | O_CLOEXEC);
	if (vfio->group < 0)
		fail_errno(errno == EBUSY ? IN_USE : SYSTEM, "the IOMMU group of %s cannot be opened (%s)",
			   vfio->device->address, path);
	if (ioctl(vfio->group, VFIO_GROUP_GET_STATUS, &status) || !(status.flags & VFIO_GROUP_FLAGS_VIABLE))
		fail(IN_USE, "the IOMMU group of %s is in use by another driver", vfio->device->address);
	if (ioctl(vfio->group, VFIO_GROUP_SET_CONTAINER, &vfio->container))
		fail_errno(SYSTEM, "the IOMMU group of %s cannot be used", vfio->device->address);
	if (ioctl(vfio->container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU))
		fail_errno(SYSTEM, "the IOMMU does not take %s (without interrupt remapping VFIO refuses: intel-iommu needs "
				   "intremap=on)", vfio->device->address);
	vfio->function = ioctl(vfio->group, VFIO_GROUP_GET_DEVICE_FD, vfio->device->address);
	if (vfio->function < 0)
		fail_errno(SYSTEM, "%s cannot be opened by VFIO", vfio->device->address);
}

static struct vfio_region_info region(const struct vfio *vfio, unsigned int index)
{
	struct vfio_region_info info = { .argsz = sizeof(info), .index = index };

	if (ioctl(vfio->function, VFIO_DEVICE_GET_REGION_INFO, &info))
		fail_errno(SYSTEM, "region %u of %s cannot be asked about", index, vfio->device->address);
	return info;
}

static void map_bar(struct vfio *vfio)
{
	struct vfio_region_info info = region(vfio, VFIO_PCI_BAR0_REGION_INDEX);
	const int both = VFIO_REGION_INFO_FLAG_MMAP | VFIO_REGION_INFO_FLAG_WRITE;
	void *at;

	if (!info.size || (info.flags & both) != both)
		fail(NO_BAR, "BAR 0 of %s is no memory that can be mapped", vfio->device->address);
	at = mmap(NULL, info.size, PROT_READ | PROT_WRITE, MAP_SHARED, vfio->function, info.offset);
	if (at == MAP_FAILED)
		fail_errno(SYSTEM, "BAR 0 of %s cannot be mapped", vfio->device->address);
	vfio->bar = at;
	vfio->bar_bytes = info.size;
}

static void let_it_master(const struct vfio *vfio)
{
	uint64_t at = region(vfio, VFIO_PCI_CONFIG_REGION_INDEX).offset + PCI_COMMAND;
	uint16_t command;

	if (pread(vfio->function, &command, sizeof(command), at) != sizeof(command))
		fail_errno(SYSTEM, "the command register of %s cannot be read", vfio->device->address);
	command |= PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
	if (pwrite(vfio->function, &command, sizeof(command), at) != sizeof(command))
		fail_errno(SYSTEM, "the command register of %s cannot be written", vfio->device->address);
}

/* Some addresses are not translated: MSI doorbells, memory of the firmware. The kernel lists them. */
static void refuse_reserved(const struct vfio *vfio, uint64_t iova, size_t bytes)
{
	unsigned long long first, last;
	char path[640], line[128], kind[32];
	FILE *file;

	snprintf(path, sizeof(path), "%s/iommu_group/reserved_regions", vfio->device->path);
	file = fopen(path, "re");
	if (!file)
		return; /* the IOMMU refuses then */
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%llx %llx %31s", &first, &last, kind) == 3 && iova <= last && iova + bytes > first)
			fail(SYSTEM, "DMA address 0x%llx of %s is reserved (%s)", (unsigned long long)iova,
			     vfio->device->address, kind);
	fclose(file);
}

void *vfio_map(struct vfio *vfio, size_t bytes, uint64_t iova)
{
	struct vfio_iommu_type1_dma_map map = {
		.argsz = sizeof(map),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.iova = iova,
		.size = bytes,
	};
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		fail_errno(SYSTEM, "no memory");
	refuse_reserved(vfio, iova, bytes);
	map.vaddr = (uintptr_t)memory;
	if (ioctl(vfio->container, VFIO_IOMMU_MAP_DMA, &map))
		fail_errno(SYSTEM, "the IOMMU does not map %zu bytes for %s", bytes, vfio->device->address);
	return memory;
}

static int signal_by(const struct vfio *vfio, unsigned int index, int eventfd)
{
	struct {
		struct vfio_irq_set set;
		int32_t eventfd;
	} request = {
		.set = {
			.argsz = sizeof(request),
			.flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
			.index = index,
			.count = 1,
		},
		.eventfd = eventfd,
	};

	return ioctl(vfio->function, VFIO_DEVICE_SET_IRQS, &request);
}

void vfio_msi(struct vfio *vfio, int eventfd)
{
	struct vfio_irq_info info = { .argsz = sizeof(info), .index = VFIO_PCI_MSI_IRQ_INDEX };

	if (ioctl(vfio->function, VFIO_DEVICE_GET_IRQ_INFO, &info) || !info.count)
		fail(SYSTEM, "%s has no MSI", vfio->device->address);
	if (signal_by(vfio, VFIO_PCI_MSI_IRQ_INDEX, eventfd))
		fail_errno(SYSTEM, "the MSI of %s cannot be had (is there an interrupt controller that takes MSIs, such as "
				   "an ITS?)", vfio->device->address);
}

void vfio_take(struct vfio *vfio, struct device *device)
{
	*vfio = (struct vfio){ .device = device, .container = -1, .group = -1, .function = -1 };
	/* With a device tree, kernels before 6.15 put a function into its group only when a driver takes it. */
	if (group_number(device) >= 0)
		refuse_shared(device);
	bind(vfio);
	refuse_shared(device);
	open_group(vfio);
	map_bar(vfio);
	let_it_master(vfio);
	vfio->wanted = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (vfio->wanted < 0 || signal_by(vfio, VFIO_PCI_REQ_IRQ_INDEX, vfio->wanted))
		fail_errno(SYSTEM, "whether the kernel wants %s back cannot be known", device->address);
}

bool vfio_wanted_back(const struct vfio *vfio)
{
	uint64_t times;

	return read(vfio->wanted, &times, sizeof(times)) == sizeof(times);
}
