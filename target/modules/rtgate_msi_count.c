// SPDX-License-Identifier: GPL-2.0-only
/*
 * On the root complex: counts the MSIs that come from Rockchip's endpoint, beside the driver pcie-rkep, which requests
 * its vectors with pci_request_irq() and so shares them (drivers/pci/irq.c).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/device.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/pci.h>

#include "rtgate_count.h"
#include "rtgate_rkep.h"

static unsigned int vendor = RTGATE_VENDOR;
module_param(vendor, uint, 0444);
MODULE_PARM_DESC(vendor, "vendor of the endpoint (default 0x1d87)");

static unsigned int device = RTGATE_DEVICE;
module_param(device, uint, 0444);
MODULE_PARM_DESC(device, "device id of the endpoint (default 0x356a)");

static unsigned int vector;
module_param(vector, uint, 0444);
MODULE_PARM_DESC(vector, "which of the endpoint's vectors is counted (default 0)");

static struct rtgate_counter counter = { .kind = "msi" };
static struct pci_dev *function;

/* A driver that goes frees its vectors, which must have no handler any more: also when the endpoint disappears. */
static int rtgate_unbound(struct notifier_block *block, unsigned long action, void *data)
{
	if (action == BUS_NOTIFY_UNBIND_DRIVER && data == &function->dev && counter.irq) {
		pr_err("the driver of %s goes: counting ends\n", pci_name(function));
		rtgate_count_stop(&counter);
	}
	return NOTIFY_OK;
}

static struct notifier_block unbound = { .notifier_call = rtgate_unbound };

static int rtgate_start(void)
{
	int ret = -ENODEV, irq;

	/* Neither may the driver come or go while its interrupt is looked up. */
	device_lock(&function->dev);
	if (!function->dev.driver || !(function->msi_enabled || function->msix_enabled)) {
		pr_err("%s has no MSI: bind its driver (pcie-rkep) first\n", pci_name(function));
		goto unlock;
	}
	irq = pci_irq_vector(function, vector);
	if (irq < 0) {
		pr_err("%s has no vector %u\n", pci_name(function), vector);
		goto unlock;
	}
	ret = rtgate_count_start(&counter, irq);
unlock:
	device_unlock(&function->dev);
	return ret;
}

static int __init rtgate_msi_count_init(void)
{
	int ret;

	function = rtgate_function(vendor, device);
	if (!function)
		return -ENODEV;
	ret = bus_register_notifier(&pci_bus_type, &unbound);
	if (ret)
		goto put;
	ret = rtgate_start();
	if (ret)
		goto unregister;
	return 0;

unregister:
	bus_unregister_notifier(&pci_bus_type, &unbound);
put:
	pci_dev_put(function);
	return ret;
}

static void __exit rtgate_msi_count_exit(void)
{
	bus_unregister_notifier(&pci_bus_type, &unbound);
	rtgate_count_stop(&counter);
	pci_dev_put(function);
}

module_init(rtgate_msi_count_init);
module_exit(rtgate_msi_count_exit);
MODULE_DESCRIPTION("Counts MSIs of an endpoint beside its driver");
MODULE_LICENSE("GPL");
