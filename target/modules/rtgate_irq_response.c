// SPDX-License-Identifier: GPL-2.0-only
/*
 * How late the kernel answers an interrupt: from the moment at which a device raises it to the first instruction of its
 * handler, in hard-interrupt context or in a threaded handler.
 *
 * The source is the timer of an RTL8139, a network card that QEMU's arm64 and x86 machines both have as a PCI device: its
 * counter runs at 33.3 MHz (QEMU 7.2, hw/net/rtl8139.c: 30 ns of the machine's own time), and it raises INTx when the
 * counter reaches a value. What is simpler does not serve on one CPU: a device that raises an interrupt when a register is
 * written (edu, ivshmem) raises it while its CPU runs the writer, never inside somebody's section with interrupts off.
 * edu's DMA ends 100 ms later, on a whole millisecond. A gpio-sim raises no interrupt, but an irq_work; pl061 is arm64's.
 *
 * The device's own counter is the clock: it is read first in the handler, and what it says beyond the value is the
 * response. So nothing is converted, and the time is in steps of 30 ns, less than four instructions of 8 ns.
 *
 * Write `CONTEXT INTERRUPTS INTERVAL_US RANGE_US` (CONTEXT: hard or threaded) to /dev/rtgate_irq_response: it returns when
 * that many were handled, or when one did not come for a second. Reading it gives the result as JSON, times in ns.
 * The handler restarts the counter, so the next interrupt comes one interval after the last was handled.
 */
#include <linux/bits.h>
#include <linux/completion.h>
#include <linux/interrupt.h>
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#define TICK_NS 30
#define TIMEOUT BIT(14)			/* in mask and status: the counter reached its value */
#define INTERVAL_MOST_US 100000		/* well below the second after which an interrupt is lost */
#define RANGE_MOST_US 10000

/* Registers of BAR 1. */
enum { MASK_AT = 0x3c, STATUS_AT = 0x3e, COUNTER_AT = 0x48, VALUE_AT = 0x54 };

static struct {
	struct pci_dev *pdev;
	void __iomem *registers;
	struct mutex lock;		/* one run or one reader at a time */
	struct completion done;
	bool threaded;
	u32 value;			/* ticks from the counter's start to the interrupt */
	u32 asked, handled, spurious;
	u32 least, most;		/* ticks */
	u64 sum;
	u32 *counts;			/* by ticks */
	u32 range;
	unsigned int cpu;		/* of the last handler */
} response = { .lock = __MUTEX_INITIALIZER(response.lock) };

static irqreturn_t answer(int irq, void *data)
{
	u32 ticks = readl(response.registers + COUNTER_AT) - response.value;

	if (!(readw(response.registers + STATUS_AT) & TIMEOUT)) {
		response.spurious++;
		return IRQ_NONE;
	}
	writew(TIMEOUT, response.registers + STATUS_AT);
	response.least = min(response.least, ticks);
	response.most = max(response.most, ticks);
	response.sum += ticks;
	if (ticks < response.range)
		response.counts[ticks]++;
	response.cpu = raw_smp_processor_id();
	WRITE_ONCE(response.handled, response.handled + 1);
	if (response.handled < response.asked)
		writel(0, response.registers + COUNTER_AT);
	else
		complete(&response.done);
	return IRQ_HANDLED;
}

static int take_interrupt(void)
{
	if (response.threaded)
		return request_threaded_irq(response.pdev->irq, NULL, answer, IRQF_SHARED | IRQF_ONESHOT, KBUILD_MODNAME,
					    &response);
	return request_irq(response.pdev->irq, answer, IRQF_SHARED | IRQF_NO_THREAD, KBUILD_MODNAME, &response);
}

static int measure(void)
{
	long left;
	u32 before;
	int ret;

	writew(0, response.registers + MASK_AT);
	writel(0, response.registers + VALUE_AT);
	writew(TIMEOUT, response.registers + STATUS_AT);
	reinit_completion(&response.done);
	ret = take_interrupt();
	if (ret)
		return ret;
	writew(TIMEOUT, response.registers + MASK_AT);
	writel(response.value, response.registers + VALUE_AT);
	writel(0, response.registers + COUNTER_AT);
	do {
		before = READ_ONCE(response.handled);
		left = wait_for_completion_interruptible_timeout(&response.done, HZ);
	} while (left == 0 && READ_ONCE(response.handled) != before);
	writew(0, response.registers + MASK_AT);
	free_irq(response.pdev->irq, &response);
	return left < 0 ? left : 0;
}

static int prepare(char *line)
{
	unsigned int asked, interval_us, range_us;
	char context[9];
	u32 *counts, range;

	if (sscanf(line, "%8s %u %u %u", context, &asked, &interval_us, &range_us) != 4)
		return -EINVAL;
	if (strcmp(context, "hard") && strcmp(context, "threaded"))
		return -EINVAL;
	if (!asked || !interval_us || interval_us > INTERVAL_MOST_US || !range_us || range_us > RANGE_MOST_US)
		return -EINVAL;
	range = range_us * 1000 / TICK_NS;
	counts = kvcalloc(range, sizeof(*counts), GFP_KERNEL);
	if (!counts)
		return -ENOMEM;
	kvfree(response.counts);
	response.counts = counts;
	response.range = range;
	response.threaded = context[0] == 't';
	response.value = interval_us * 1000 / TICK_NS;
	response.asked = asked;
	response.handled = response.spurious = response.most = response.sum = 0;
	response.least = U32_MAX;
	return 0;
}

static ssize_t response_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	char line[64] = "";
	int ret;

	if (size >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, size))
		return -EFAULT;
	ret = mutex_lock_interruptible(&response.lock);
	if (ret)
		return ret;
	ret = prepare(line);
	if (!ret)
		ret = measure();
	mutex_unlock(&response.lock);
	return ret ? ret : size;
}

static int response_show(struct seq_file *file, void *unused)
{
	u32 least, ticks;
	const char *between = "";

	mutex_lock(&response.lock);
	least = response.handled ? response.least : 0;
	seq_printf(file, "{\"test\": \"%s\", \"asked\": %u, \"cycles\": %u, \"lost\": %d, \"spurious\": %u,\n",
		   response.threaded ? "threaded" : "hard", response.asked, response.handled,
		   response.handled < response.asked, response.spurious);
	seq_printf(file, "\"cpu\": %u, \"resolution_in_ns\": %d, \"range\": %llu, \"min\": %llu, \"max\": %llu,\n",
		   response.cpu, TICK_NS, (u64)response.range * TICK_NS, (u64)least * TICK_NS,
		   (u64)response.most * TICK_NS);
	seq_printf(file, "\"sum\": %llu, \"histogram\": {", response.sum * TICK_NS);
	for (ticks = 0; response.counts && ticks < response.range; ticks++) {
		if (!response.counts[ticks])
			continue;
		seq_printf(file, "%s\"%llu\": %u", between, (u64)ticks * TICK_NS, response.counts[ticks]);
		between = ", ";
	}
	seq_puts(file, "}}\n");
	mutex_unlock(&response.lock);
	return 0;
}

static int response_open(struct inode *inode, struct file *file)
{
	file->private_data = NULL;	/* misc_open() left the device there, which seq_open() warns of */
	return single_open(file, response_show, NULL);
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = response_open,
	.read = seq_read,
	.write = response_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static struct miscdevice node = { .minor = MISC_DYNAMIC_MINOR, .name = KBUILD_MODNAME, .fops = &operations, .mode = 0600 };

static int response_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	int ret;

	if (response.pdev)
		return -EBUSY;
	ret = pcim_enable_device(pdev);
	if (ret)
		return ret;
	response.registers = pcim_iomap(pdev, 1, 0);
	if (!response.registers)
		return -ENOMEM;
	init_completion(&response.done);
	response.pdev = pdev;
	ret = misc_register(&node);
	if (ret)
		response.pdev = NULL;
	return ret;
}

static void response_remove(struct pci_dev *pdev)
{
	misc_deregister(&node);
	kvfree(response.counts);
	response.counts = NULL;
	response.pdev = NULL;
}

static const struct pci_device_id ids[] = { { PCI_DEVICE(0x10ec, 0x8139) }, { } };
MODULE_DEVICE_TABLE(pci, ids);

static struct pci_driver response_driver = {
	.name = KBUILD_MODNAME,
	.id_table = ids,
	.probe = response_probe,
	.remove = response_remove,
	/* Whoever holds the file open would outlive the device. */
	.driver = { .suppress_bind_attrs = true },
};
module_pci_driver(response_driver);

MODULE_DESCRIPTION("Measures how late an interrupt is answered, with the timer of an RTL8139");
MODULE_LICENSE("GPL");
