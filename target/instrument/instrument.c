// SPDX-License-Identifier: MIT
#include "instrument.h"

#include <stddef.h>

/* The CRC of the utility cksum (POSIX.1-2017, XCU), of bytes as they come. */
struct checksum {
	uint32_t crc, length;
};

static struct {
	uint32_t pulses, period_us;	/* of the command */
	uint32_t begun, answers, missed, early, doubled, beyond, least, most;
	uint64_t sum;			/* of ticks */
	uint32_t counts[BUCKETS];	/* answers by ticks */
} run;

static volatile bool is_running, is_over;
static bool has_result;
static char command[40];
static size_t command_length;
static struct checksum line, block;
static uint32_t block_lines;

static uint32_t crc_byte(uint32_t crc, uint8_t byte)
{
	int bit;

	crc ^= (uint32_t)byte << 24;
	for (bit = 0; bit < 8; bit++)
		crc = crc & 0x80000000u ? crc << 1 ^ 0x04c11db7u : crc << 1;
	return crc;
}

static void add_byte(struct checksum *checksum, char byte)
{
	checksum->crc = crc_byte(checksum->crc, (uint8_t)byte);
	checksum->length++;
}

static uint32_t checksum_of(struct checksum checksum)
{
	for (; checksum.length; checksum.length >>= 8)
		checksum.crc = crc_byte(checksum.crc, checksum.length & 0xff);
	return ~checksum.crc;
}

static void put_byte(char byte)
{
	add_byte(&line, byte);
	add_byte(&block, byte);
	hardware_put(byte);
}

static void put_text(const char *text)
{
	while (*text)
		put_byte(*text++);
}

static void put_number(uint64_t number)
{
	char digits[21];
	size_t at = sizeof(digits) - 1;

	digits[at] = '\0';
	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	put_text(digits + at);
}

static void put_field(const char *name, uint64_t number)
{
	put_byte(' ');
	put_text(name);
	put_byte('=');
	put_number(number);
}

/* Ends a line with the checksum of what stands before it and a newline, as `echo TEXT | cksum` prints it. */
static void end_line(void)
{
	struct checksum text = line;
	uint32_t sum;

	add_byte(&text, '\n');
	sum = checksum_of(text);
	put_byte(' ');
	put_number(sum);
	put_byte('\n');
	line = (struct checksum){ 0 };
	block_lines++;
}

static void say(const char *text)
{
	put_text(text);
	end_line();
}

static void say_identity(const char *word)
{
	put_text(word);
	put_text(" rtgate-instrument 1 clock=");
	put_text(hardware_has_crystal() ? "crystal" : "internal");
	put_field("ticks_per_s", TICKS_PER_US * 1000000u);
	put_field("buckets", BUCKETS);
	end_line();
}

static void say_status(void)
{
	put_text(is_running ? "status running" : has_result ? "status done" : "status idle");
	put_field("pulses", run.begun);
	put_field("of", run.pulses);
	end_line();
}

static void say_result(void)
{
	uint32_t ticks, lines, total;

	if (!has_result) {
		say("error there is no result");
		return;
	}
	block = (struct checksum){ 0 };
	block_lines = 0;
	put_text("result");
	put_field("pulses", run.begun);
	put_field("period_us", run.period_us);
	put_field("answers", run.answers);
	put_field("missed", run.missed);
	put_field("early", run.early);
	put_field("doubled", run.doubled);
	put_field("beyond", run.beyond);
	put_field("min", run.answers ? run.least : 0);
	put_field("max", run.most);
	put_field("sum", run.sum);
	end_line();
	for (ticks = 0; ticks < BUCKETS; ticks++) {
		if (!run.counts[ticks])
			continue;
		put_text("bucket ");
		put_number(ticks);
		put_byte(' ');
		put_number(run.counts[ticks]);
		end_line();
	}
	lines = block_lines;
	total = checksum_of(block);
	put_text("end");
	put_field("lines", lines);
	put_field("total", total);
	end_line();
}

static void begin_run(uint32_t pulses, uint32_t period_us, bool is_selftest)
{
	size_t ticks;

	run.pulses = pulses;
	run.period_us = period_us;
	run.begun = run.answers = run.missed = run.early = run.doubled = run.beyond = run.most = 0;
	run.sum = 0;
	run.least = UINT32_MAX;
	for (ticks = 0; ticks < BUCKETS; ticks++)
		run.counts[ticks] = 0;
	has_result = false;
	is_over = false;
	is_running = true;
	hardware_start(period_us, is_selftest);
}

static void stop_run(void)
{
	hardware_stop();
	is_running = is_over = false;
}

static void selftest(void)
{
	bool passed;

	begin_run(SELFTEST_PULSES, SELFTEST_PERIOD_US, true);
	hardware_answer();
	/* Between the moment and the capture the hardware runs a few instructions, at most 10 us of them. */
	passed = is_over && run.answers == SELFTEST_PULSES && !run.doubled &&
		 run.least >= SELFTEST_TICKS && run.most < SELFTEST_TICKS + 10 * TICKS_PER_US;
	stop_run();
	put_text(passed ? "selftest pass" : "selftest fail");
	put_field("pulses", run.begun);
	put_field("answers", run.answers);
	put_field("min", run.answers ? run.least : 0);
	put_field("max", run.most);
	end_line();
}

/* Reads a number that is followed by `end`, and steps over both. */
static bool read_number(const char **text, char end, uint32_t *number)
{
	uint64_t value = 0;
	const char *at = *text;

	for (; *at >= '0' && *at <= '9' && value <= UINT32_MAX; at++)
		value = value * 10 + (uint64_t)(*at - '0');
	if (at == *text || *at != end || value > UINT32_MAX)
		return false;
	*number = (uint32_t)value;
	*text = at + 1;
	return true;
}

static void start(const char *arguments)
{
	uint32_t pulses, period_us;

	if (!read_number(&arguments, ' ', &pulses) || !read_number(&arguments, '\0', &period_us) || !pulses ||
	    period_us < LEAST_PERIOD_US || period_us > MOST_PERIOD_US) {
		say("error start takes PULSES PERIOD_US, 1 or more and 100 to 5000");
		return;
	}
	if (!hardware_has_crystal()) {
		say("error the crystal does not run");
		return;
	}
	put_text("started");
	put_field("pulses", pulses);
	put_field("period_us", period_us);
	end_line();
	hardware_wait_for_silence();
	begin_run(pulses, period_us, false);
}

/* Returns what follows `word` in the command; NULL if that begins otherwise. */
static const char *after(const char *word)
{
	const char *at = command;

	while (*word)
		if (*word++ != *at++)
			return NULL;
	return at;
}

static bool is_command(const char *word)
{
	const char *rest = after(word);

	return rest && !*rest;
}

static void obey(void)
{
	if (!*command)
		return;
	if (is_command("id")) {
		say_identity("id");
	} else if (is_command("status")) {
		say_status();
	} else if (is_command("stop")) {
		stop_run();
		say("stopped");
	} else if (is_running) {
		say("error it measures: stop ends that");
	} else if (is_command("selftest")) {
		selftest();
	} else if (is_command("result")) {
		say_result();
	} else if (after("start ")) {
		start(after("start "));
	} else {
		say("error unknown command (id, status, start, stop, result, selftest)");
	}
}

void instrument_begin(void)
{
	say_identity("reset");
}

void instrument_take(char byte)
{
	if (byte == '\r')
		return;
	if (byte != '\n') {
		if (command_length < sizeof(command))
			command[command_length++] = byte;
		return;
	}
	if (command_length < sizeof(command)) {
		command[command_length] = '\0';
		obey();
	} else {
		say("error a command of more than 39 bytes");
	}
	command_length = 0;
}

void instrument_poll(void)
{
	if (!is_over)
		return;
	is_over = false;
	has_result = true;
	say_result();
}

bool instrument_is_running(void)
{
	return is_running;
}

static void count(bool answered, bool again, uint32_t ticks)
{
	if (again)
		run.doubled++;
	if (!answered) {
		run.missed++;
		return;
	}
	if (ticks < EARLIEST_TICKS) {
		run.early++;
		return;
	}
	run.answers++;
	run.sum += ticks;
	if (ticks < run.least)
		run.least = ticks;
	if (ticks > run.most)
		run.most = ticks;
	if (ticks < BUCKETS)
		run.counts[ticks]++;
	else
		run.beyond++;
}

bool instrument_period(bool answered, bool again, uint32_t ticks)
{
	if (!is_running)
		return false;
	if (run.begun)	/* before the first pulse there is nothing to answer */
		count(answered, again, ticks);
	if (run.begun == run.pulses) {
		hardware_stop();
		is_running = false;
		is_over = true;
		return false;
	}
	run.begun++;
	return run.begun < run.pulses;
}
