// SPDX-License-Identifier: MIT
/*
 * Each access is one instruction of a volatile asm: the compiler may choose its address register, but can neither drop,
 * merge, split nor widen it. Plain volatile C would not do for 128 bits, for which C has no type.
 */
#include "access.h"

typedef uint64_t vector __attribute__((vector_size(16)));

#if defined(__aarch64__)
static inline void put32(void *to, uint32_t value)
{
	asm volatile("str %w1, %0" : "=m"(*(uint32_t *)to) : "r"(value));
}

static inline void put64(void *to, uint64_t value)
{
	asm volatile("str %x1, %0" : "=m"(*(uint64_t *)to) : "r"(value));
}

static inline void put128(void *to, vector value)
{
	asm volatile("str %q1, %0" : "=m"(*(vector *)to) : "w"(value));
}

static inline uint32_t get32(const void *from)
{
	uint32_t value;

	asm volatile("ldr %w0, %1" : "=r"(value) : "m"(*(const uint32_t *)from));
	return value;
}

static inline uint64_t get64(const void *from)
{
	uint64_t value;

	asm volatile("ldr %x0, %1" : "=r"(value) : "m"(*(const uint64_t *)from));
	return value;
}

static inline vector get128(const void *from)
{
	vector value;

	asm volatile("ldr %q0, %1" : "=w"(value) : "m"(*(const vector *)from));
	return value;
}
#elif defined(__x86_64__)
static inline void put32(void *to, uint32_t value)
{
	asm volatile("movl %1, %0" : "=m"(*(uint32_t *)to) : "r"(value));
}

static inline void put64(void *to, uint64_t value)
{
	asm volatile("movq %1, %0" : "=m"(*(uint64_t *)to) : "r"(value));
}

static inline void put128(void *to, vector value)
{
	asm volatile("movdqa %1, %0" : "=m"(*(vector *)to) : "x"(value));
}

static inline uint32_t get32(const void *from)
{
	uint32_t value;

	asm volatile("movl %1, %0" : "=r"(value) : "m"(*(const uint32_t *)from));
	return value;
}

static inline uint64_t get64(const void *from)
{
	uint64_t value;

	asm volatile("movq %1, %0" : "=r"(value) : "m"(*(const uint64_t *)from));
	return value;
}

static inline vector get128(const void *from)
{
	vector value;

	asm volatile("movdqa %1, %0" : "=x"(value) : "m"(*(const vector *)from));
	return value;
}
#else
#error "only arm64 and x86_64 are known"
#endif

/* Four accesses a round, so that counting the round costs less than an access, also on an emulated CPU. */
#define STORE_LOOP(put, word, value) \
	do { \
		uint8_t *at = to, *end = at + bytes; \
		for (; at != end; at += 4 * sizeof(word)) { \
			put(at, value); \
			put(at + sizeof(word), value); \
			put(at + 2 * sizeof(word), value); \
			put(at + 3 * sizeof(word), value); \
		} \
	} while (0)

#define LOAD_LOOP(get, word, sum) \
	do { \
		const uint8_t *at = from, *end = at + bytes; \
		for (; at != end; at += 4 * sizeof(word)) { \
			sum += get(at); \
			sum += get(at + sizeof(word)); \
			sum += get(at + 2 * sizeof(word)); \
			sum += get(at + 3 * sizeof(word)); \
		} \
	} while (0)

void store32(void *to, size_t bytes, uint64_t value)
{
	STORE_LOOP(put32, uint32_t, (uint32_t)value);
}

void store64(void *to, size_t bytes, uint64_t value)
{
	STORE_LOOP(put64, uint64_t, value);
}

void store128(void *to, size_t bytes, uint64_t value)
{
	const vector both = { value, ~value };

	STORE_LOOP(put128, vector, both);
}

uint64_t load32(const void *from, size_t bytes)
{
	uint64_t sum = 0;

	LOAD_LOOP(get32, uint32_t, sum);
	return sum;
}

uint64_t load64(const void *from, size_t bytes)
{
	uint64_t sum = 0;

	LOAD_LOOP(get64, uint64_t, sum);
	return sum;
}

uint64_t load128(const void *from, size_t bytes)
{
	vector sum = { 0, 0 };

	LOAD_LOOP(get128, vector, sum);
	return sum[0] + sum[1];
}

void io_memset(void *to, int byte, size_t bytes)
{
	const uint64_t word = 0x0101010101010101u * (uint8_t)byte;
	uint8_t *at = to, *end = at + bytes;

	for (; at != end; at += sizeof(word))
		put64(at, word);
}

void io_memcpy_from(void *to, const void *from, size_t bytes)
{
	const uint8_t *at = from, *end = at + bytes;
	uint64_t *out = to;

	for (; at != end; at += sizeof(*out))
		*out++ = get64(at);
}

void io_memcpy_to(void *to, const void *from, size_t bytes)
{
	uint8_t *at = to, *end = at + bytes;
	const uint64_t *in = from;

	for (; at != end; at += sizeof(*in))
		put64(at, *in++);
}

void plain128(void *to, size_t bytes, uint64_t value)
{
	const vector word = { value, ~value };
	vector *words = to;
	size_t i;

	for (i = 0; i < bytes / sizeof(*words); i++)
		words[i] = word;
}
