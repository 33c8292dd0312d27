// SPDX-License-Identifier: MIT
/*
 * guest: reads what QEMU 7.2 does not give to plugins. A QEMU that is built with modules, as Debian's is, exports the
 * functions that know it.
 *
 * Where QEMU keeps the mask and the registers is found out and checked, as its structures are in no header that is
 * packaged: cpsr_write() on an empty state shows the place of the mask in it, and the registers that QEMU's gdb stub
 * reads show where the state is. If they are not found, or not once, or if the stub ever reads another mask, the boot
 * ends with a message.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"
#include "trace.h"

/* Bytes of a state of a CPU at most; words of CPUState with pointers, bytes up to the state; its parts; gdb's number. */
enum { STATE_SIZE = 1 << 20, CPU_WORDS = 512, CPU_SIZE = 1 << 16, REGISTERS_AT = 64, PSTATE = 33 };
enum { RAW_WRITE = 2, PAGE = 4096, DIFFERENT = 8 };

struct bytes { /* GByteArray */
	uint8_t *data;
	unsigned int length;
};

static void **current_cpu;
static uint32_t (*cpsr_read)(const void *);
static void (*cpsr_write)(void *, uint32_t, uint32_t, int);
static int (*read_register)(void *, struct bytes *, int);
static uint64_t (*page_of)(void *, uint64_t, void *);
static void *(*map)(uint64_t, uint64_t *, bool);
static int (*read_memory)(void *, uint64_t, void *, size_t, bool);
static struct bytes *(*new_bytes)(void);
static struct bytes *(*set_size)(struct bytes *, unsigned int);

static void *needed(const char *name)
{
	void *symbol = dlsym(RTLD_DEFAULT, name);

	if (!symbol)
		fail("this QEMU does not export what sections are read with", name);
	return symbol;
}

void guest_install(void)
{
	cpsr_read = (uint32_t(*)(const void *))needed("cpsr_read");
	cpsr_write = (void (*)(void *, uint32_t, uint32_t, int))needed("cpsr_write");
	read_register = (int (*)(void *, struct bytes *, int))needed("aarch64_cpu_gdb_read_register");
	page_of = (uint64_t(*)(void *, uint64_t, void *))needed("cpu_get_phys_page_attrs_debug");
	map = (void *(*)(uint64_t, uint64_t *, bool))needed("cpu_physical_memory_map");
	read_memory = (int (*)(void *, uint64_t, void *, size_t, bool))needed("cpu_memory_rw_debug");
	new_bytes = (struct bytes * (*)(void)) needed("g_byte_array_new");
	set_size = (struct bytes * (*)(struct bytes *, unsigned int)) needed("g_byte_array_set_size");
}

/* Return where in the state of a CPU the byte with the mask of interrupts is. */
static size_t mask_offset(void)
{
	char *state = room_for(STATE_SIZE);
	size_t place = 0, changes = 0;

	cpsr_write(state, GUEST_MASKED, GUEST_MASKED, RAW_WRITE);
	for (size_t i = 0; i < STATE_SIZE; i++)
		if (state[i]) {
			place = i;
			changes++;
		}
	if (changes != 1 || (uint8_t)state[place] != GUEST_MASKED || !(cpsr_read(state) & GUEST_MASKED))
		fail("this QEMU keeps the mask of interrupts otherwise than is known", "cpsr_write");
	free(state);
	return place;
}

static uint64_t gdb_register(int number, int size)
{
	static struct bytes *bytes;
	uint64_t value = 0;

	if (!bytes)
		bytes = new_bytes();
	set_size(bytes, 0);
	if (read_register(*current_cpu, bytes, number) != size)
		fail("this QEMU does not read registers as is known", "aarch64_cpu_gdb_read_register");
	memcpy(&value, bytes->data, size);
	return value;
}

bool guest_masked(const struct guest_cpu *cpu)
{
	return *cpu->mask & GUEST_MASKED;
}

void guest_check(const struct guest_cpu *cpu)
{
	if (guest_masked(cpu) != !!(gdb_register(PSTATE, 4) & GUEST_MASKED))
		fail("this QEMU keeps the mask of interrupts otherwise than is known", "PSTATE");
}

bool guest_prepare(struct guest_cpu *cpu)
{
	uint64_t values[GUEST_REGISTERS];
	const char *state = NULL;
	size_t different = 0;
	char *this;

	/* A variable of the thread that runs CPUs, so it cannot be asked for before. */
	if (!current_cpu)
		current_cpu = needed("current_cpu");
	this = *current_cpu;
	for (int i = 0; i < GUEST_REGISTERS; i++) {
		values[i] = gdb_register(i, 8);
		different += values[i] > 0xffff;
	}
	if (different < DIFFERENT)
		return false;
	for (char **word = (char **)this; word < (char **)this + CPU_WORDS; word++) {
		if (*word <= this || *word >= this + CPU_SIZE || *word == state ||
		    memcmp(*word + REGISTERS_AT, values, sizeof(values)))
			continue;
		if (state)
			fail("this QEMU has the registers twice", "CPUState");
		state = *word;
	}
	if (!state)
		fail("this QEMU keeps registers otherwise than is known", "CPUState");
	cpu->registers = (const uint64_t *)(state + REGISTERS_AT);
	cpu->mask = (const uint8_t *)state + mask_offset();
	guest_check(cpu);
	return true;
}

const void *guest_memory(uint64_t address, uint64_t size)
{
	uint64_t attributes = 0, length = size, within = address % PAGE;
	uint64_t page = page_of(*current_cpu, address - within, &attributes);
	const void *memory = page == ~0ull ? NULL : map(page + within, &length, false);

	if (!memory || length < size)
		fail("a task is not in the guest's memory", "cpu_physical_memory_map");
	return memory;
}

bool guest_read(uint64_t address, void *into, uint64_t size)
{
	return !read_memory(*current_cpu, address, into, size, false);
}
