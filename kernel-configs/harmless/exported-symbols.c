// SPDX-License-Identifier: GPL-2.0-only
#include <linux/export.h>
#include <linux/types.h>

u64 placebo_counter;
EXPORT_SYMBOL_GPL(placebo_counter);

u64 placebo_first(u64 value);
u64 placebo_first(u64 value)
{
	return value * 3 + placebo_counter;
}
EXPORT_SYMBOL_GPL(placebo_first);

u64 placebo_second(u64 value);
u64 placebo_second(u64 value)
{
	return value / 7 - placebo_counter;
}
EXPORT_SYMBOL_GPL(placebo_second);
