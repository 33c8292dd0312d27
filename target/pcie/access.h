/* SPDX-License-Identifier: MIT */
/*
 * The measured loops: each moves `bytes` (a multiple of 64) from or to device memory, in accesses of one width.
 * selftests/unit/target/test_pcie_access.py disassembles them and counts.
 */
#ifndef RTGATE_ACCESS_H
#define RTGATE_ACCESS_H

#include <stddef.h>
#include <stdint.h>

/* Store: the value's low bits in each word; store128 stores the value and its complement. */
void store32(void *to, size_t bytes, uint64_t value);
void store64(void *to, size_t bytes, uint64_t value);
void store128(void *to, size_t bytes, uint64_t value);

/* Load, and return the sum of all words, so that each was waited for and can be verified; load128 adds its halves. */
uint64_t load32(const void *from, size_t bytes);
uint64_t load64(const void *from, size_t bytes);
uint64_t load128(const void *from, size_t bytes);

/*
 * As the kernel's memset_io and memcpy_fromio do it on arm64 (arch/arm64/kernel/io.c to 6.12): 64 bits at a time. Theirs
 * take single bytes up to a boundary of 8, where these always begin and end.
 */
void io_memset(void *to, int byte, size_t bytes);
void io_memcpy_from(void *to, const void *from, size_t bytes);

/* The other direction, used to fill and never timed. */
void io_memcpy_to(void *to, const void *from, size_t bytes);

/* What store128 does, as a plain C loop that the compiler may treat as it likes: what the loops are compared with. */
void plain128(void *to, size_t bytes, uint64_t value);

#endif
