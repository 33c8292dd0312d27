// SPDX-License-Identifier: GPL-2.0-only
#include <linux/init.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

static int placebo_show(struct seq_file *m, void *unused)
{
	seq_puts(m, "nothing\n");
	return 0;
}

static int __init placebo_init(void)
{
	proc_create_single("placebo", 0444, NULL, placebo_show);
	return 0;
}
fs_initcall(placebo_init);
