// SPDX-License-Identifier: GPL-2.0-only
/*
 * On the endpoint: counts interrupts of the controller's line "sys", beside Rockchip's endpoint driver, which requests
 * it shared. ELBI interrupts come on it, and those of DMA and of a hot reset too: let none of them happen meanwhile. They
 * cannot be told apart here, because the driver's handler is called first and clears what it has handled.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "rtgate_count.h"
#include "rtgate_rkep.h"

static struct rtgate_counter counter = { .kind = "elbi" };
static struct platform_device *controller;

static int __init rtgate_elbi_count_init(void)
{
	int ret;

	controller = rtgate_controller();
	if (!controller)
		return -ENODEV;
	ret = platform_get_irq_byname(controller, "sys");
	if (ret > 0)
		ret = rtgate_count_start(&counter, ret);
	if (ret)
		put_device(&controller->dev);
	return ret;
}

static void __exit rtgate_elbi_count_exit(void)
{
	rtgate_count_stop(&counter);
	put_device(&controller->dev);
}

module_init(rtgate_elbi_count_init);
module_exit(rtgate_elbi_count_exit);
MODULE_DESCRIPTION("Counts ELBI interrupts of Rockchip's PCIe endpoint beside its driver");
MODULE_LICENSE("GPL");
