/* SPDX-License-Identifier: MIT */
/*
 * What of QEMU's plugin interface is used here; its header is not packaged. QEMU_PLUGIN is the version that this is
 * compiled for: 1 (QEMU 6.0 to 8.2) or 3 (9.1) to 7 (11.1). 2, that of 9.0, is left out.
 */
#ifndef RTGATE_QEMU_H
#define RTGATE_QEMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct {
	const char *target_name;
	struct {
		int min, cur;
	} version;
	bool system_emulation;
	int cpus;
} qemu_info_t;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_W = 2, QEMU_PLUGIN_MEM_RW = 3 };
struct qemu_plugin_hwaddr;
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned int, void *),
					  enum qemu_plugin_cb_flags, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned int, void *),
					    enum qemu_plugin_cb_flags, void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
				      void (*)(unsigned int, qemu_plugin_meminfo_t, uint64_t, void *),
				      enum qemu_plugin_cb_flags, enum qemu_plugin_mem_rw, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t, uint64_t);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);

/* What differs. */
#if QEMU_PLUGIN == 1
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, enum qemu_plugin_op, void *, uint64_t);
#else
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
struct qemu_plugin_scoreboard;
typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} qemu_plugin_u64;
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *, unsigned int);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *, enum qemu_plugin_op,
							 qemu_plugin_u64, uint64_t);
#endif
#if QEMU_PLUGIN < 7
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
#else
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(struct qemu_plugin_tb *, void *), void *);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(void *), void *);
#endif

/* The same for all versions. */
enum { LATEST_INTERFACE = 7 };
enum { INSTRUCTION = 16 }; /* bytes of one at most */
void qemu_count(struct qemu_plugin_insn *insn); /* this instruction, when it runs */
unsigned int qemu_cpu(unsigned int number); /* which CPU runs, where a callback is told this number */
size_t qemu_bytes(const struct qemu_plugin_insn *insn, uint8_t *bytes); /* the rest is zeroed */
void qemu_install(qemu_plugin_id_t, const qemu_info_t *, void (*translation_callback)(struct qemu_plugin_tb *),
		  void (*end_callback)(void));

#endif
