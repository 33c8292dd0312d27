// SPDX-License-Identifier: GPL-2.0-only
/* On the root complex: raises ELBI interrupts in Rockchip's endpoint by writes to its configuration space. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bits.h>
#include <linux/module.h>
#include <linux/pci.h>

#include "rtgate_rkep.h"
#include "rtgate_send.h"

static struct pci_dev *function;

static void rtgate_raise(void)
{
	/* Interrupt 0 is the only one that the endpoint's driver handles. */
	pci_write_config_dword(function, RTGATE_ELBI, RTGATE_ELBI_RAISE);
}

static bool rtgate_there(void)
{
	return pci_device_is_present(function);
}

static struct rtgate_sender sender = { .kind = "elbi", .raise = rtgate_raise, .there = rtgate_there };

static int __init rtgate_elbi_send_init(void)
{
	int ret = rtgate_send_check();

	if (ret)
		return ret;
	/* No parameters: the same write does anything to any other device. */
	function = rtgate_function(RTGATE_VENDOR, RTGATE_DEVICE);
	if (!function)
		return -ENODEV;
	ret = rtgate_send_start(&sender);
	if (ret)
		pci_dev_put(function);
	return ret;
}

static void __exit rtgate_elbi_send_exit(void)
{
	rtgate_send_stop(&sender);
	pci_dev_put(function);
}

module_init(rtgate_elbi_send_init);
module_exit(rtgate_elbi_send_exit);
MODULE_DESCRIPTION("Raises ELBI interrupts in Rockchip's PCIe endpoint");
MODULE_LICENSE("GPL");
