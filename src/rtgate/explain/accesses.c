// SPDX-License-Identifier: MIT
/*
 * accesses: sends what the board accesses through the model of caches (caches.c), by physical addresses. The code of a block
 * is accessed when the block begins. Devices have no cache. Not seen is what QEMU does without an access of its own, such as
 * arm64's `dc zva`.
 *
 * PREFIX.moments is written, empty without caches: records as below, where an interrupt comes and where a program reads the
 * clock.
 */
#include "accesses.h"
#include "base.h"
#include "caches.h"
#include "guest.h"
#include "qemu.h"

enum { PAGE_BITS = 12 };

/* Lines of memory with a block's code, by their addresses. */
struct code {
	size_t count;
	uint64_t *lines;
};

struct moment {
	uint64_t n;
	struct misses misses;
};

static FILE *moments;

void accesses_install(void)
{
	if (caches_wanted() && caches_lack())
		fail("a cache is not in the order", caches_lack());
	moments = opened("moments");
}

struct code *accesses_translated(void)
{
	return caches_wanted() ? room_for(sizeof(struct code)) : NULL;
}

static void add(struct code *code, uint64_t address)
{
	static uint64_t page, physical;
	uint64_t line;

	if (!code->count || address >> PAGE_BITS != page) {
		page = address >> PAGE_BITS;
		physical = guest_page(page << PAGE_BITS);
	}
	line = (physical + address % (1 << PAGE_BITS)) >> LINE_BITS << LINE_BITS;
	if (code->count && code->lines[code->count - 1] == line)
		return;
	code->lines = grown(code->lines, (code->count + 1) * sizeof(*code->lines));
	code->lines[code->count++] = line;
}

static void on_access(unsigned int number, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	struct qemu_plugin_hwaddr *where = qemu_plugin_get_hwaddr(info, address);
	uint64_t first, last;

	(void)number, (void)data;
	if (!where || qemu_plugin_hwaddr_is_io(where))
		return;
	first = qemu_plugin_hwaddr_phys_addr(where);
	last = first + (1u << qemu_plugin_mem_size_shift(info)) - 1;
	caches_access(L1D, first);
	/* What lies behind the end of a page is not known here. */
	if (first >> LINE_BITS != last >> LINE_BITS && first >> PAGE_BITS == last >> PAGE_BITS)
		caches_access(L1D, last);
}

void accesses_instruction(struct qemu_plugin_insn *insn, struct code *code)
{
	uint64_t first = qemu_plugin_insn_vaddr(insn), last = first + qemu_plugin_insn_size(insn) - 1;

	if (!code)
		return;
	add(code, first);
	if (first >> PAGE_BITS == last >> PAGE_BITS)
		add(code, last);
	qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
}

void accesses_block(const struct code *code)
{
	for (size_t i = 0; code && i < code->count; i++)
		caches_access(L1I, code->lines[i]);
}

void accesses_moment(void)
{
	struct moment moment = { *instruction_count, caches_misses };

	if (caches_wanted())
		fwrite(&moment, sizeof(moment), 1, moments);
}

void accesses_end(void)
{
	closed(moments, "moments");
}
