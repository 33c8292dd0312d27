// SPDX-License-Identifier: MIT
/*
 * qemu: what differs between the versions of QEMU's plugin interface.
 *
 * In version 1 translated code adds to any variable. In later ones it adds to a counter that each CPU has for itself. From
 * 10.0 on QEMU compiles the number of the CPU that translates a block into it as a constant, where CPUs run in turns, as
 * those of a virtual-time board do. Callbacks of that block are told this number whichever CPU runs. The code of an
 * addition multiplies that constant in place, so every other use of the same constant in the block is wrong, unless it is
 * 0 (gen_cpu_index() and gen_plugin_u64_ptr() in accel/tcg/plugin-gen.c; seen with 10.0 and 11.1). So with several CPUs a
 * callback counts, and QEMU is asked which CPU runs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "base.h"
#include "qemu.h"

int qemu_plugin_version = QEMU_PLUGIN;
static void (*on_translation)(struct qemu_plugin_tb *);
static void (*on_end)(void);

#if QEMU_PLUGIN == 1
void qemu_count(struct qemu_plugin_insn *insn)
{
	qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, instruction_count, 1);
}

unsigned int qemu_cpu(unsigned int number)
{
	return number;
}

static void find_cpus(int total)
{
	(void)total;
}
#else
static int cpu_total;
static void *(*cpu_object)(int);

static void on_instruction(unsigned int number, void *data)
{
	(void)number, (void)data;
	++*instruction_count;
}

void qemu_count(struct qemu_plugin_insn *insn)
{
	static qemu_plugin_u64 counter;

	if (cpu_total > 1) {
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_instruction, QEMU_PLUGIN_CB_NO_REGS, NULL);
		return;
	}
	if (!counter.score) {
		counter.score = qemu_plugin_scoreboard_new(sizeof(*instruction_count));
		instruction_count = qemu_plugin_scoreboard_find(counter.score, 0);
	}
	qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, counter, 1);
}

unsigned int qemu_cpu(unsigned int number)
{
	static void **current_cpu;
	static int last;

	if (cpu_total == 1)
		return number;
	if (!current_cpu) /* a variable of the thread that runs CPUs */
		current_cpu = dlsym(RTLD_DEFAULT, "current_cpu");
	if (!current_cpu)
		fail("this QEMU does not export which CPU runs", "current_cpu");
	if (cpu_object(last) == *current_cpu)
		return last;
	for (last = 0; last < cpu_total; last++)
		if (cpu_object(last) == *current_cpu)
			return last;
	fail("a CPU runs that QEMU does not list", "qemu_get_cpu");
}

static void find_cpus(int total)
{
	cpu_total = total;
	cpu_object = (void *(*)(int))dlsym(RTLD_DEFAULT, "qemu_get_cpu");
	if (!cpu_object)
		fail("this QEMU does not export its CPUs", "qemu_get_cpu");
}
#endif

size_t qemu_bytes(const struct qemu_plugin_insn *insn, uint8_t *bytes)
{
	size_t size = qemu_plugin_insn_size(insn);

	memset(bytes, 0, INSTRUCTION);
	if (size > INSTRUCTION)
		fail("an instruction is longer than is known", "qemu_plugin_insn_size");
#if QEMU_PLUGIN == 1
	memcpy(bytes, qemu_plugin_insn_data(insn), size);
#else
	if (qemu_plugin_insn_data(insn, bytes, size) != size)
		fail("an instruction cannot be read", "qemu_plugin_insn_data");
#endif
	return size;
}

#if QEMU_PLUGIN < 7
static void translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	on_translation(tb);
}

static void end(qemu_plugin_id_t id, void *data)
{
	(void)id, (void)data;
	on_end();
}

static void register_callbacks(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, translation);
	qemu_plugin_register_atexit_cb(id, end, NULL);
}
#else
static void translation(struct qemu_plugin_tb *tb, void *data)
{
	(void)data;
	on_translation(tb);
}

static void end(void *data)
{
	(void)data;
	on_end();
}

static void register_callbacks(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, translation, NULL);
	qemu_plugin_register_atexit_cb(id, end, NULL);
}
#endif

void qemu_install(qemu_plugin_id_t id, const qemu_info_t *info, void (*translation_callback)(struct qemu_plugin_tb *),
		  void (*end_callback)(void))
{
	if (info->version.cur > LATEST_INTERFACE)
		fail("this QEMU has another plugin interface than rtgate knows", "qemu_plugin_install");
	if (info->cpus > CPUS)
		fail("the board has more CPUs than can be traced, which are 8", "qemu_plugin_install");
	find_cpus(info->cpus);
	on_translation = translation_callback;
	on_end = end_callback;
	register_callbacks(id);
}
