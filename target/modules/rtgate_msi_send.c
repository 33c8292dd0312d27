// SPDX-License-Identifier: GPL-2.0-only
/* On the endpoint: raises MSIs to the root complex by writes to the controller's own registers. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bits.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/module.h>

#include "rtgate_rkep.h"
#include "rtgate_send.h"

static unsigned int vector;
module_param(vector, uint, 0444);
MODULE_PARM_DESC(vector, "which vector is raised, 0 to 31 (default 0; pcie-rkep reads BAR 0 in the handler of 0 only)");

static struct platform_device *controller;
static void __iomem *registers;

static void rtgate_raise(void)
{
	writel(BIT(vector), registers + RTGATE_MSI_GENERATE);
}

/* The controller's own registers are there whether or not the link is. */
static struct rtgate_sender sender = { .kind = "msi", .raise = rtgate_raise };

static int __init rtgate_map(void)
{
	struct resource *resource = platform_get_resource_byname(controller, IORESOURCE_MEM, "pcie-apb");

	if (!resource || resource_size(resource) < RTGATE_MSI_GENERATE + sizeof(u32)) {
		pr_err("the controller has no registers \"pcie-apb\"\n");
		return -ENODEV;
	}
	/* Its driver has claimed them; a second mapping of one register that only writes raise is no conflict. */
	registers = ioremap(resource->start, resource_size(resource));
	return registers ? 0 : -ENOMEM;
}

static int __init rtgate_msi_send_init(void)
{
	int ret = rtgate_send_check();

	if (ret)
		return ret;
	if (vector > 31) {
		pr_err("vector=%u: 0 to 31\n", vector);
		return -EINVAL;
	}
	controller = rtgate_controller();
	if (!controller)
		return -ENODEV;
	ret = rtgate_map();
	if (ret)
		goto put;
	ret = rtgate_send_start(&sender);
	if (ret)
		goto unmap;
	return 0;

unmap:
	iounmap(registers);
put:
	put_device(&controller->dev);
	return ret;
}

static void __exit rtgate_msi_send_exit(void)
{
	rtgate_send_stop(&sender);
	iounmap(registers);
	put_device(&controller->dev);
}

module_init(rtgate_msi_send_init);
module_exit(rtgate_msi_send_exit);
MODULE_DESCRIPTION("Raises MSIs from Rockchip's PCIe endpoint");
MODULE_LICENSE("GPL");
