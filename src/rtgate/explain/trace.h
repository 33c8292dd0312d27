/* SPDX-License-Identifier: MIT */
/* What the parts of the plugin have in common: trace.c (events, blocks) and sections.c (critical sections). */
#ifndef RTGATE_TRACE_H
#define RTGATE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What of QEMU's plugin interface, version 1 (QEMU 6.0 to 8.2), is used here; its header is not packaged. */
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct {
	const char *target_name;
} qemu_info_t;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_W = 2, QEMU_PLUGIN_MEM_RW = 3 };
struct qemu_plugin_hwaddr;
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned int, void *),
					  enum qemu_plugin_cb_flags, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned int, void *),
					    enum qemu_plugin_cb_flags, void *);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, enum qemu_plugin_op, void *, uint64_t);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
				      void (*)(unsigned int, qemu_plugin_meminfo_t, uint64_t, void *),
				      enum qemu_plugin_cb_flags, enum qemu_plugin_mem_rw, void *);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t, uint64_t);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);

/* trace.c */
extern uint64_t n; /* instructions executed since power-on, by all CPUs */
extern unsigned int slice_bits; /* what follows is counted in slices of 2^slice_bits instructions; 0: in one */
void fail(const char *what, const char *name) __attribute__((noreturn));
void *room_for(size_t size); /* zeroed; it is never freed, as QEMU does not say when it forgets a block */
void *grown(void *array, size_t size);
FILE *opened(const char *suffix);
void closed(FILE *stream, const char *name);

/* sections.c. All does nothing unless a line of the order asks for sections. */
struct place;
bool sections_order(const char *line); /* whether the line is for sections */
void sections_install(void);
struct place *sections_translated(uint64_t address); /* of the first instruction of a block */
void sections_instruction(struct qemu_plugin_insn *insn, struct place *block);
void sections_block(unsigned int cpu, struct place *block); /* before its first instruction */
void sections_end(void);

#endif
