// SPDX-License-Identifier: MIT
/* The instrument's hardware as this machine plays it: target/instrument/instrument.c runs in a process of Python's. */
#include <stddef.h>

#include "instrument.h"

void host_set(bool crystal, bool timer);
size_t host_sent(char *to, size_t size);
uint32_t host_period_us(void);

static char sent[1 << 20];
static size_t sent_count;
static bool has_crystal = true, has_timer = true;
static uint32_t running_period_us;

void host_set(bool crystal, bool timer)
{
	has_crystal = crystal;
	has_timer = timer;
}

/* Moves what was sent since the last call to `to`, and returns how many bytes it is. */
size_t host_sent(char *to, size_t size)
{
	size_t count = sent_count < size ? sent_count : size, at;

	for (at = 0; at < count; at++)
		to[at] = sent[at];
	sent_count = 0;
	return count;
}

/* Returns the period of the measurement that runs; 0 without one. */
uint32_t host_period_us(void)
{
	return running_period_us;
}

void hardware_put(char byte)
{
	if (sent_count < sizeof(sent))
		sent[sent_count++] = byte;
}

bool hardware_has_crystal(void)
{
	return has_crystal;
}

void hardware_wait_for_silence(void)
{
}

void hardware_start(uint32_t period_us, bool is_selftest)
{
	running_period_us = is_selftest ? 0 : period_us;
}

void hardware_stop(void)
{
	running_period_us = 0;
}

void hardware_answer(void)
{
	while (has_timer && instrument_is_running())
		instrument_period(true, false, SELFTEST_TICKS + 3);
}
