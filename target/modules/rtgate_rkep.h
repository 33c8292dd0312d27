/* SPDX-License-Identifier: GPL-2.0-only */
/* Where Rockchip's standard endpoint is: a PCI function for the root complex, a platform device on its own side. */
#ifndef RTGATE_RKEP_H
#define RTGATE_RKEP_H

#include <linux/moduleparam.h>
#include <linux/of.h>
#include <linux/of_platform.h>
#include <linux/pci.h>
#include <linux/platform_device.h>

#define RTGATE_VENDOR 0x1d87
#define RTGATE_DEVICE 0x356a

#define RTGATE_ELBI 0xe00			/* the first of two registers in the endpoint's configuration space */
#define RTGATE_ELBI_RAISE (BIT(16) | BIT(0))	/* the upper half of it masks writes to the lower one */
#define RTGATE_MSI_GENERATE 0x38		/* in the controller's own registers, "pcie-apb" */

/* Return the endpoint's PCI function, which the caller puts, or NULL after saying why. */
static inline struct pci_dev *rtgate_function(unsigned int vendor, unsigned int device)
{
	struct pci_dev *pdev = pci_get_device(vendor, device, NULL);

	if (!pdev)
		pr_err("no PCI function %04x:%04x: is the endpoint up, and was it before this side?\n", vendor, device);
	return pdev;
}

/* Return the controller in endpoint mode, which the caller puts, or NULL after saying why. */
static inline struct platform_device *rtgate_controller(void)
{
	static const struct of_device_id endpoints[] = {
		{ .compatible = "rockchip,rk3568-pcie-std-ep" },
		{ .compatible = "rockchip,rk3588-pcie-std-ep" },
		{ }
	};
	struct device_node *node = of_find_matching_node(NULL, endpoints);
	struct platform_device *pdev = node ? of_find_device_by_node(node) : NULL;

	of_node_put(node);
	if (!pdev)
		pr_err("no PCIe controller in endpoint mode in the device tree\n");
	return pdev;
}

#endif
