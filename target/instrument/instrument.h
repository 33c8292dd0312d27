/* SPDX-License-Identifier: MIT */
/*
 * An instrument that raises an interrupt of a board by a pulse, and counts how long the board takes to answer by another
 * one. This is its logic: commands, counts, and the lines that it sends. `stm32f103.c` is its hardware.
 * docs/reference/tools/irq-instrument.md has the protocol.
 */
#ifndef INSTRUMENT_H
#define INSTRUMENT_H

#include <stdbool.h>
#include <stdint.h>

#define TICKS_PER_US 12
#ifndef BUCKETS
#define BUCKETS 4000		/* 333 us; 16 kB of the 20 kB of an STM32F103C8 */
#endif

enum {
	LEAST_PERIOD_US = 100, MOST_PERIOD_US = 5000,	/* a timer of 16 bits */
	/* No kernel answers a pulse so soon: such an edge is crosstalk, or belongs to an earlier pulse. */
	EARLIEST_TICKS = TICKS_PER_US,
	SELFTEST_PULSES = 100, SELFTEST_PERIOD_US = 1000, SELFTEST_TICKS = 100 * TICKS_PER_US,
};

/* Announces that the instrument begins anew. */
void instrument_begin(void);

/* Takes a byte of a command. */
void instrument_take(char byte);

/* Sends the result of a measurement that is over. */
void instrument_poll(void);

bool instrument_is_running(void);

/*
 * A period of the timer ends and the next one begins, with a pulse. In the one that ends the board answered `ticks` after
 * the pulse; `again` if it answered several times, and then that was the last. Returns whether one more pulse is to follow
 * the one that begins.
 */
bool instrument_period(bool answered, bool again, uint32_t ticks);

/* What the hardware does. */
void hardware_put(char byte);
bool hardware_has_crystal(void);
/* Returns when all is sent, and 1 s later, so that the board's UART has nothing to do while it measures. */
void hardware_wait_for_silence(void);
void hardware_start(uint32_t period_us, bool is_selftest);	/* a selftest sends no pulses to the board */
void hardware_stop(void);
/* Answers in place of the board, SELFTEST_TICKS after each pulse, until the run is over or the timer stands still. */
void hardware_answer(void);

#endif
