/* SPDX-License-Identifier: MIT */
/* A PCI function in the hands of user space, by vfio-pci, behind an IOMMU. */
#ifndef RTGATE_VFIO_H
#define RTGATE_VFIO_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"

struct vfio {
	struct device *device;
	int container, group, function;
	int wanted;		/* eventfd that the kernel signals when it wants the function back */
	char former[64];	/* the driver that had it before */
	volatile uint8_t *bar;	/* BAR 0 */
	size_t bar_bytes;
};

/*
 * Takes the function from its driver, gives it to vfio-pci and opens it, with BAR 0 mapped and bus mastering on.
 * Refuses a function without IOMMU, and one whose IOMMU group has other functions, naming them. It is given back when
 * the program ends, however that is except by SIGKILL. One that is bound to vfio-pci already is used, and stays so.
 */
void vfio_take(struct vfio *vfio, struct device *device);

/* Whether the kernel wants the function back: it is being removed or unbound, and that waits for us. */
bool vfio_wanted_back(const struct vfio *vfio);

/* Returns memory of whole pages that the function sees from `iova` on. */
void *vfio_map(struct vfio *vfio, size_t bytes, uint64_t iova);

/* Has the function's first MSI vector counted by `eventfd`. */
void vfio_msi(struct vfio *vfio, int eventfd);

#endif
