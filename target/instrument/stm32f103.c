// SPDX-License-Identifier: MIT
/*
 * The instrument's hardware: an STM32F103 with a crystal of 8 MHz (a "Blue Pill"). Registers are those of ST's reference
 * manual RM0008 and of PM0056, whose sections stand beside them.
 *
 *   PA0  pulse to the board: channel 1 of TIM2, whose edge rises when the counter becomes 0
 *   PA1  answer of the board: channel 2, which captures the counter at a rising edge
 *   PA9, PA10  to and from the board's UART: 115200 8N1
 */
#include "instrument.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define BIT(number) (1u << (number))

/* RM0008 7.3, reset and clock control. */
#define RCC_CR REGISTER(0x40021000)
#define RCC_CFGR REGISTER(0x40021004)
#define RCC_APB2ENR REGISTER(0x40021018)
#define RCC_APB1ENR REGISTER(0x4002101c)
/* RM0008 3.3.3 */
#define FLASH_ACR REGISTER(0x40022000)
/* RM0008 9.2, general-purpose I/O. */
#define GPIOA_CRL REGISTER(0x40010800)
#define GPIOA_CRH REGISTER(0x40010804)
#define GPIOA_BSRR REGISTER(0x40010810)
/* RM0008 27.6 */
#define USART1_SR REGISTER(0x40013800)
#define USART1_DR REGISTER(0x40013804)
#define USART1_BRR REGISTER(0x40013808)
#define USART1_CR1 REGISTER(0x4001380c)
/* RM0008 15.4, general-purpose timers. */
#define TIM2_CR1 REGISTER(0x40000000)
#define TIM2_DIER REGISTER(0x4000000c)
#define TIM2_SR REGISTER(0x40000010)
#define TIM2_EGR REGISTER(0x40000014)
#define TIM2_CCMR1 REGISTER(0x40000018)
#define TIM2_CCER REGISTER(0x40000020)
#define TIM2_CNT REGISTER(0x40000024)
#define TIM2_PSC REGISTER(0x40000028)
#define TIM2_ARR REGISTER(0x4000002c)
#define TIM2_CCR1 REGISTER(0x40000034)
#define TIM2_CCR2 REGISTER(0x40000038)
/* PM0056 4.3.2, 4.4.5, 4.5 */
#define NVIC_ISER0 REGISTER(0xe000e100)
#define SCB_AIRCR REGISTER(0xe000ed0c)
#define STK_CTRL REGISTER(0xe000e010)
#define STK_LOAD REGISTER(0xe000e014)
#define STK_VAL REGISTER(0xe000e018)

enum {
	CRYSTAL_HZ = 72000000, INTERNAL_HZ = 8000000, BAUD = 115200,
	TIM2_IRQ = 28,			/* RM0008 10.1.2 */
	CLOCK_SPINS = 100000,		/* more than the 10 ms that a crystal takes to start */
	SELFTEST_SPINS = 4000000,	/* more than the 100 ms of a selftest */
};
enum { CEN = BIT(0), UIE = BIT(0), UG = BIT(0), CC2G = BIT(2) };
enum { UIF = BIT(0), CC2IF = BIT(2), CC2OF = BIT(10), CC1E = BIT(0), CC2E = BIT(4) };
enum { FORCED_LOW = 4u << 4, PWM = 6u << 4 | BIT(3), CAPTURE = 1u << 8 };
enum { ORE = BIT(3), RXNE = BIT(5), TC = BIT(6), TXE = BIT(7) };

static bool has_crystal;
static char received[64];
static uint32_t received_count, taken_count;

static bool wait_for(volatile uint32_t *status, uint32_t mask, uint32_t value)
{
	uint32_t spins;

	for (spins = 0; spins < CLOCK_SPINS; spins++)
		if ((*status & mask) == value)
			return true;
	return false;
}

/* 72 MHz from the crystal. Without it the clock stays what it is after a reset, an internal one that is off by 1 %. */
static bool start_crystal(void)
{
	RCC_CR |= BIT(16);					/* HSEON */
	if (!wait_for(&RCC_CR, BIT(17), BIT(17)))
		return false;
	FLASH_ACR = BIT(4) | 2;					/* prefetch, two wait states */
	/* PLL of the crystal times 9; APB1 has half, and its timers twice that: 72 MHz. */
	RCC_CFGR = 7u << 18 | BIT(16) | 4u << 8;
	RCC_CR |= BIT(24);					/* PLLON */
	if (!wait_for(&RCC_CR, BIT(25), BIT(25)))
		return false;
	RCC_CFGR |= 2;
	if (!wait_for(&RCC_CFGR, 3u << 2, 2u << 2))
		return false;
	RCC_CR |= BIT(19);					/* CSSON: a crystal that stops is an NMI, and so a fault */
	return true;
}

static void start_pins(void)
{
	RCC_APB2ENR |= BIT(2) | BIT(14);			/* GPIOA, USART1 */
	RCC_APB1ENR |= BIT(0);					/* TIM2 */
	hardware_stop();					/* PA0 is to be low as soon as the timer has it */
	/* PA0: alternate function, push-pull, 10 MHz. PA1: input with a pull-down, so that an open wire is quiet. */
	GPIOA_CRL = (GPIOA_CRL & ~0xffu) | 0x89;
	GPIOA_CRH = (GPIOA_CRH & ~0xff0u) | 0x890;		/* PA9: as PA0. PA10: input with a pull-up */
	GPIOA_BSRR = BIT(16 + 1) | BIT(10);
}

static void start_uart(void)
{
	USART1_BRR = ((has_crystal ? CRYSTAL_HZ : INTERNAL_HZ) + BAUD / 2) / BAUD;
	USART1_CR1 = BIT(13) | BIT(3) | BIT(2);			/* UE, TE, RE */
}

/* Called whenever there is time: the UART keeps one byte. */
static void receive(void)
{
	if (USART1_SR & (RXNE | ORE)) {
		char byte = (char)USART1_DR;

		if (received_count - taken_count < sizeof(received))
			received[received_count++ % sizeof(received)] = byte;
	}
}

void hardware_put(char byte)
{
	do
		receive();
	while (!(USART1_SR & TXE));
	USART1_DR = (uint8_t)byte;
}

bool hardware_has_crystal(void)
{
	return has_crystal;
}

void hardware_wait_for_silence(void)
{
	uint32_t spins;

	wait_for(&USART1_SR, TC, TC);
	STK_LOAD = CRYSTAL_HZ / 8 - 1;				/* 1 s; the timer has an eighth of the clock */
	STK_VAL = 0;
	STK_CTRL = 1;
	/* A spin takes more than 8 cycles, so 1 s also goes by with a timer that stands still. */
	for (spins = 0; spins < CRYSTAL_HZ / 8 && !(STK_CTRL & BIT(16)); spins++)
		receive();
	STK_CTRL = 0;
}

void hardware_start(uint32_t period_us, bool is_selftest)
{
	uint32_t ticks = period_us * TICKS_PER_US;

	hardware_stop();
	TIM2_PSC = CRYSTAL_HZ / 1000000 / TICKS_PER_US - 1;
	TIM2_ARR = ticks - 1;
	TIM2_CCR1 = ticks / 2;					/* a square wave */
	TIM2_EGR = UG;
	/* One tick before the end of a period: the output is low until the first pulse rises, at 0. */
	TIM2_CNT = ticks - 1;
	TIM2_CCMR1 = CAPTURE | (is_selftest ? FORCED_LOW : PWM);	/* PWM mode 1, preloaded */
	TIM2_CCER = CC2E | CC1E;
	TIM2_SR = 0;
	TIM2_DIER = UIE;
	TIM2_CR1 = CEN;
}

void hardware_stop(void)
{
	TIM2_CR1 = 0;
	TIM2_DIER = 0;
	TIM2_CCER = CC1E;
	TIM2_CCMR1 = FORCED_LOW;
	TIM2_SR = 0;
}

void hardware_answer(void)
{
	bool is_due = false;
	uint32_t spins;

	for (spins = 0; spins < SELFTEST_SPINS && instrument_is_running(); spins++) {
		uint32_t ticks = TIM2_CNT;

		if (is_due && ticks >= SELFTEST_TICKS)
			TIM2_EGR = CC2G;			/* captures, as an edge would */
		is_due = ticks < SELFTEST_TICKS;
	}
}

static void end_period(void)
{
	uint32_t status = TIM2_SR;
	uint32_t ticks = TIM2_CCR2;				/* this clears CC2IF */

	status |= TIM2_SR & CC2OF;				/* of an edge between both */
	TIM2_SR = ~(uint32_t)(UIF | CC2OF);
	if (!instrument_period(status & CC2IF, status & CC2OF, ticks))
		TIM2_CCR1 = 0;					/* from the next period on */
}

/* Begins anew, which the board is told: nobody would notice an instrument that stands still before the end. */
static void fault(void)
{
	SCB_AIRCR = 0x05fa0004;
	for (;;)
		;
}

int main(void);
int main(void)
{
	has_crystal = start_crystal();
	start_pins();
	start_uart();
	NVIC_ISER0 = BIT(TIM2_IRQ);
	instrument_begin();
	for (;;) {
		receive();
		if (received_count != taken_count)
			instrument_take(received[taken_count++ % sizeof(received)]);
		instrument_poll();
	}
}

/* Of the linker script. */
extern uint32_t data_from[], data_begin[], data_end[], bss_begin[], bss_end[], stack_top[];

void reset(void);
void reset(void)
{
	uint32_t *to, *from = data_from;

	for (to = data_begin; to < data_end;)
		*to++ = *from++;
	for (to = bss_begin; to < bss_end;)
		*to++ = 0;
	main();
}

/* PM0056 2.3.4 */
__attribute__((section(".vectors"), used)) static void (*const vectors[16 + TIM2_IRQ + 1])(void) = {
	[0] = (void (*)(void))stack_top,
	[1] = reset,
	[2 ... 15 + TIM2_IRQ] = fault,
	[16 + TIM2_IRQ] = end_period,
};
