// SPDX-License-Identifier: GPL-2.0-only
// The cell of the demo inmate on QEMU's machine virt: CPU 1, 64 KiB, and the hypervisor's console.
#include <jailhouse/types.h>
#include <jailhouse/cell-config.h>

struct {
	struct jailhouse_cell_desc cell;
	__u64 cpus[1];
	struct jailhouse_memory mem_regions[2];
} __attribute__((packed)) config = {
	.cell = {
		.signature = JAILHOUSE_CELL_DESC_SIGNATURE,
		.revision = JAILHOUSE_CONFIG_REVISION,
		.architecture = JAILHOUSE_ARM64,
		.name = "inmate",
		.flags = JAILHOUSE_CELL_PASSIVE_COMMREG | JAILHOUSE_CELL_VIRTUAL_CONSOLE_PERMITTED |
			 JAILHOUSE_CELL_VIRTUAL_CONSOLE_ACTIVE,
		.cpu_set_size = sizeof(config.cpus),
		.num_memory_regions = ARRAY_SIZE(config.mem_regions),
	},
	.cpus = { 0x2 },
	.mem_regions = {
		{ .phys_start = 0x5fa00000, .virt_start = 0, .size = 0x00010000,
		  .flags = JAILHOUSE_MEM_READ | JAILHOUSE_MEM_WRITE | JAILHOUSE_MEM_EXECUTE | JAILHOUSE_MEM_LOADABLE },
		{ .virt_start = 0x80000000, .size = 0x00001000,
		  .flags = JAILHOUSE_MEM_READ | JAILHOUSE_MEM_WRITE | JAILHOUSE_MEM_COMM_REGION },
	},
};
