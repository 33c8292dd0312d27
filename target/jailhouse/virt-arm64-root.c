// SPDX-License-Identifier: GPL-2.0-only
// The root cell on QEMU's machine virt (hw/arm/virt.c) with two CPUs, 512 MiB, GICv3 and no ITS: all of it but 6 MiB,
// of which the hypervisor has 4 and the inmate one page of 64 KiB. Linux has 384 MiB, by mem=.
#include <jailhouse/types.h>
#include <jailhouse/cell-config.h>

struct {
	struct jailhouse_system header;
	__u64 cpus[1];
	struct jailhouse_memory mem_regions[3];
	struct jailhouse_irqchip irqchips[1];
} __attribute__((packed)) config = {
	.header = {
		.signature = JAILHOUSE_SYSTEM_SIGNATURE,
		.revision = JAILHOUSE_CONFIG_REVISION,
		.architecture = JAILHOUSE_ARM64,
		.flags = JAILHOUSE_SYS_VIRTUAL_DEBUG_CONSOLE,
		.hypervisor_memory = { .phys_start = 0x5fc00000, .size = 0x00400000 },
#ifdef MEMGUARD
		.platform_info.memguard = { .num_irqs = 288, .hv_timer = 26, .num_pmu_irq = 2, .pmu_cpu_irq = { 23, 23 } },
#endif
		.platform_info.arm = {
			.gic_version = 3, .gicd_base = 0x08000000, .gicr_base = 0x080a0000, .maintenance_irq = 25,
		},
		.root_cell = {
			.name = "root",
			.cpu_set_size = sizeof(config.cpus),
			.num_memory_regions = ARRAY_SIZE(config.mem_regions),
			.num_irqchips = ARRAY_SIZE(config.irqchips),
		},
	},
	.cpus = { 0x3 },
	.mem_regions = {
		// Devices: console, clock, virtio.
		{ .phys_start = 0x09000000, .virt_start = 0x09000000, .size = 0x37000000,
		  .flags = JAILHOUSE_MEM_READ | JAILHOUSE_MEM_WRITE | JAILHOUSE_MEM_IO },
		{ .phys_start = 0x40000000, .virt_start = 0x40000000, .size = 0x1fa10000,
		  .flags = JAILHOUSE_MEM_READ | JAILHOUSE_MEM_WRITE | JAILHOUSE_MEM_EXECUTE },
		// PCI's configuration space.
		{ .phys_start = 0x4010000000, .virt_start = 0x4010000000, .size = 0x10000000,
		  .flags = JAILHOUSE_MEM_READ | JAILHOUSE_MEM_WRITE | JAILHOUSE_MEM_IO },
	},
	.irqchips = {
		{ .address = 0x08000000, .pin_base = 32,
		  .pin_bitmap = { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff } },
	},
};
