// SPDX-License-Identifier: GPL-2.0-only
/*
 * An endpoint controller without hardware, since QEMU has none: it takes what the endpoint framework gives it, says so in
 * the log, and refuses to start without a header. Its features are those of an RK3588 in Linux 6.12
 * (drivers/pci/controller/dwc/pcie-dw-rockchip.c).
 */
#include <linux/dma-mapping.h>
#include <linux/err.h>
#include <linux/init.h>
#include <linux/pci-epc.h>
#include <linux/pci-epf.h>
#include <linux/platform_device.h>
#include <linux/sizes.h>

static bool has_header;

static const struct pci_epc_features features = {
	.linkup_notifier = true,
	.msi_capable = true,
	.msix_capable = true,
	.align = SZ_64K,
	.bar = {
		[BAR_0] = { .type = BAR_FIXED, .fixed_size = SZ_1M },
		[BAR_1] = { .type = BAR_FIXED, .fixed_size = SZ_1M },
		[BAR_2] = { .type = BAR_FIXED, .fixed_size = SZ_1M },
		[BAR_3] = { .type = BAR_FIXED, .fixed_size = SZ_1M },
		[BAR_4] = { .type = BAR_RESERVED },
		[BAR_5] = { .type = BAR_FIXED, .fixed_size = SZ_1M },
	},
};

static const struct pci_epc_features *controller_features(struct pci_epc *epc, u8 func, u8 vfunc)
{
	return &features;
}

static int controller_header(struct pci_epc *epc, u8 func, u8 vfunc, struct pci_epf_header *header)
{
	pr_info("controller: header %04x:%04x\n", header->vendorid, header->deviceid);
	has_header = true;
	return 0;
}

static int controller_bar(struct pci_epc *epc, u8 func, u8 vfunc, struct pci_epf_bar *bar)
{
	pr_info("controller: BAR %d, %zu bytes\n", bar->barno, bar->size);
	return 0;
}

/* 6.12 gives the power of two. */
static int controller_msi(struct pci_epc *epc, u8 func, u8 vfunc, u8 order)
{
	pr_info("controller: %d MSIs\n", 1 << order);
	return 0;
}

static int controller_msix(struct pci_epc *epc, u8 func, u8 vfunc, u16 count, enum pci_barno bar, u32 offset)
{
	pr_info("controller: %d MSI-X\n", count);
	return 0;
}

static int controller_start(struct pci_epc *epc)
{
	if (!has_header)
		return -EINVAL;
	pr_info("controller: started\n");
	return 0;
}

static void controller_stop(struct pci_epc *epc)
{
	has_header = false;
}

static const struct pci_epc_ops controller_ops = {
	.owner = THIS_MODULE,
	.write_header = controller_header,
	.set_bar = controller_bar,
	.set_msi = controller_msi,
	.set_msix = controller_msix,
	.start = controller_start,
	.stop = controller_stop,
	.get_features = controller_features,
};

static int __init controller_init(void)
{
	struct platform_device *device = platform_device_register_simple("controller", -1, NULL, 0);
	struct pci_epc *epc;

	if (IS_ERR(device))
		return PTR_ERR(device);
	dma_coerce_mask_and_coherent(&device->dev, DMA_BIT_MASK(64));
	epc = pci_epc_create(&device->dev, &controller_ops);
	if (IS_ERR(epc))
		return PTR_ERR(epc);
	epc->max_functions = 1;
	pci_epc_init_notify(epc);
	return 0;
}
late_initcall(controller_init);
