// SPDX-License-Identifier: GPL-2.0-only
/*
 * How fast the kernel stores to and loads from the memory of a PCI function, by what its drivers use: writel_relaxed(),
 * readl_relaxed(), memset_io(), memcpy_toio() and memcpy_fromio(). What was read is compared with what was written.
 * pcie-bar (target/pcie/bar.c) does the same from user space, where the kernel's own loops cannot be measured.
 *
 * Write `FUNCTION MICROSECONDS [force]` to /dev/rtgate_pcie_bar: FUNCTION is an address (0000:01:00.0), or vendor and
 * device (1d87:356a) of the only such function; each operation takes so long, 60 s at most. It returns when all are done.
 * Reading gives the result as JSON, in pcie-bar's format.
 *
 * WHAT THE FUNCTION'S LARGEST MEMORY BAR HOLDS IS LOST: its first MiB. A function that has a driver is refused without
 * `force`; with it the driver keeps the function, and the BAR is mapped a second time.
 *
 * A function may go at any time, and its addresses may become another one's. So it is looked for before each pass over the
 * region, which has the PCI bus to itself.
 */
#include <linux/io.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/pm_runtime.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#define REGION SZ_1M
#define PIECE SZ_1K		/* between two looks at signals: a load from a dead link takes up to 50 ms */
#define LONGEST_US 60000000

/* What an operation works on. */
struct region {
	void __iomem *bar;
	u32 *pattern;		/* what the BAR holds, or is to hold */
	u32 *copy;		/* what was read */
	size_t bytes;
};

struct operation {
	const char *name;
	unsigned int width;	/* bits of each access; of memset_io and memcpy_*, what arm64 does */
	bool stores;
	void (*piece)(const struct region *region, size_t at);
};

struct result {
	u64 bytes, ns;
	size_t wrong, first;	/* bytes that differ, and the offset of the first */
	u8 expected, found;
};

static void store32(const struct region *region, size_t at)
{
	const u32 *from = region->pattern + at / sizeof(u32), *end = from + PIECE / sizeof(u32);
	void __iomem *to = region->bar + at;

	for (; from < end; from++, to += sizeof(u32))
		writel_relaxed(*from, to);
}

static void load32(const struct region *region, size_t at)
{
	const void __iomem *from = region->bar + at;
	u32 *to = region->copy + at / sizeof(u32), *end = to + PIECE / sizeof(u32);

	for (; to < end; to++, from += sizeof(u32))
		*to = readl_relaxed(from);
}

static void set(const struct region *region, size_t at)
{
	memset_io(region->bar + at, *(u8 *)region->pattern, PIECE);
}

static void copy_to(const struct region *region, size_t at)
{
	memcpy_toio(region->bar + at, region->pattern + at / sizeof(u32), PIECE);
}

static void copy_from(const struct region *region, size_t at)
{
	memcpy_fromio(region->copy + at / sizeof(u32), region->bar + at, PIECE);
}

static const struct operation operations[] = {
	{ "store32", 32, true, store32 },
	{ "memset_io", 64, true, set },
	{ "memcpy_toio", 64, true, copy_to },
	{ "load32", 32, false, load32 },
	{ "memcpy_fromio", 64, false, copy_from },
};

static struct {
	struct mutex lock;	/* one run or one reader at a time */
	bool measured;
	char function[20];	/* 0000:01:00.0 */
	u16 vendor, device;
	int bar;
	u64 bar_bytes;
	size_t bytes;
	struct result results[ARRAY_SIZE(operations)];
} state = { .lock = __MUTEX_INITIALIZER(state.lock) };

/*
 * No two words are equal, and none is what another operation left there: an odd factor permutes the 32-bit numbers. Only
 * memset_io() stores one byte everywhere, so the others must show an address that is decoded wrongly.
 */
static void fill(const struct region *region, unsigned int number)
{
	size_t i;

	for (i = 0; i < region->bytes / sizeof(u32); i++)
		region->pattern[i] = ((u32)i * ARRAY_SIZE(operations) + number + 1) * 0x9e3779b1u;
	if (operations[number].piece == set)
		memset(region->pattern, 0xa5, region->bytes);
}

static void compare(const struct region *region, struct result *result)
{
	const u8 *expected = (const u8 *)region->pattern, *found = (const u8 *)region->copy;
	size_t i;

	if (!memcmp(expected, found, region->bytes))
		return;
	for (i = 0; i < region->bytes; i++) {
		if (expected[i] == found[i])
			continue;
		if (!result->wrong) {
			result->first = i;
			result->expected = expected[i];
			result->found = found[i];
		}
		result->wrong++;
	}
}

/* Whether it answers, and is still one of the kernel's. */
static bool is_there(struct pci_dev *pdev)
{
	struct pci_dev *same = pci_get_domain_bus_and_slot(pci_domain_nr(pdev->bus), pdev->bus->number, pdev->devfn);

	pci_dev_put(same);
	return same == pdev && pci_device_is_present(pdev);
}

/* Goes over the region once, if the function is there before and after it. Returns the time that it took, or an error. */
static s64 pass(struct pci_dev *pdev, const struct region *region, const struct operation *operation)
{
	s64 ret = -ENODEV;
	size_t at;
	u64 start;

	pci_lock_rescan_remove();
	if (!is_there(pdev))
		goto unlock;
	start = ktime_get_ns();
	for (at = 0; at < region->bytes && !fatal_signal_pending(current); at += PIECE) {
		operation->piece(region, at);
		cond_resched();
	}
	/* Stores are posted: only a load behind them tells that they have arrived. */
	if (operation->stores)
		readl(region->bar + region->bytes - sizeof(u32));
	ret = ktime_get_ns() - start;
	if (at < region->bytes)
		ret = -EINTR;
	else if (!is_there(pdev))	/* what it answered then is no wrong data */
		ret = -ENODEV;
unlock:
	pci_unlock_rescan_remove();
	return ret;
}

static int run(struct pci_dev *pdev, const struct region *region, unsigned int number, u32 us)
{
	static const struct operation write = { .stores = true, .piece = copy_to }, read = { .piece = copy_from };
	const struct operation *operation = &operations[number];
	struct result *result = &state.results[number];
	s64 ns;

	fill(region, number);
	memset(region->copy, 0, region->bytes);
	ns = operation->stores ? 0 : pass(pdev, region, &write);
	while (ns >= 0 && result->ns < us * 1000ULL) {
		ns = pass(pdev, region, operation);
		if (ns < 0)
			break;
		result->bytes += region->bytes;
		result->ns += ns;
		if (!operation->stores)
			compare(region, result);
	}
	if (ns >= 0 && operation->stores) {
		ns = pass(pdev, region, &read);
		compare(region, result);
	}
	return ns < 0 ? ns : 0;
}

static int largest_bar(struct pci_dev *pdev)
{
	int each, largest = -1;

	for (each = 0; each < PCI_STD_NUM_BARS; each++) {
		unsigned long flags = pci_resource_flags(pdev, each);

		if (!(flags & IORESOURCE_MEM) || flags & IORESOURCE_UNSET || pci_resource_len(pdev, each) < PIECE)
			continue;
		if (largest < 0 || pci_resource_len(pdev, each) > pci_resource_len(pdev, largest))
			largest = each;
	}
	return largest;
}

static int run_all(struct pci_dev *pdev, struct region *region, u32 us)
{
	unsigned int number;
	int ret = 0;

	region->pattern = kvmalloc(region->bytes, GFP_KERNEL);
	region->copy = kvmalloc(region->bytes, GFP_KERNEL);
	if (!region->pattern || !region->copy)
		ret = -ENOMEM;
	for (number = 0; !ret && number < ARRAY_SIZE(operations); number++)
		ret = run(pdev, region, number, us);
	kvfree(region->copy);
	kvfree(region->pattern);
	return ret;
}

static int measure(struct pci_dev *pdev, u32 us)
{
	struct region region;
	int ret, bar = largest_bar(pdev);

	if (bar < 0) {
		pci_err(pdev, KBUILD_MODNAME ": it has no memory BAR of 1 KiB\n");
		return -ENXIO;
	}
	memset(state.results, 0, sizeof(state.results));
	strscpy(state.function, pci_name(pdev), sizeof(state.function));
	state.vendor = pdev->vendor;
	state.device = pdev->device;
	state.bar = bar;
	state.bar_bytes = pci_resource_len(pdev, bar);
	state.bytes = region.bytes = min_t(u64, state.bar_bytes, REGION);
	region.bar = ioremap(pci_resource_start(pdev, bar), region.bytes);
	if (!region.bar)
		return -ENOMEM;
	ret = run_all(pdev, &region, us);
	iounmap(region.bar);
	return ret;
}

/* What a function has no driver for may not decode its addresses: loads would be ones, and stores go nowhere. */
static int measure_enabled(struct pci_dev *pdev, u32 us, bool force)
{
	bool enabled = false;
	int ret = 0;

	device_lock(&pdev->dev);
	if (!pdev->dev.driver) {
		ret = pci_enable_device_mem(pdev);
		enabled = !ret;
	} else if (!force) {
		pci_err(pdev, KBUILD_MODNAME ": stores would disturb the driver %s: unbind it, or say force\n",
			pdev->dev.driver->name);
		ret = -EBUSY;
	}
	device_unlock(&pdev->dev);
	if (!ret) {
		pm_runtime_get_sync(&pdev->dev);
		ret = measure(pdev, us);
		pm_runtime_put(&pdev->dev);
	}
	pci_lock_rescan_remove();
	if (enabled && is_there(pdev))
		pci_disable_device(pdev);
	pci_unlock_rescan_remove();
	return ret;
}

/* Returns the function, whose reference is the caller's. */
static struct pci_dev *find(const char *text)
{
	unsigned int domain, bus, slot, function, vendor, device;
	struct pci_dev *pdev, *other;
	char more;

	if (sscanf(text, "%x:%x:%x.%x%c", &domain, &bus, &slot, &function, &more) == 4)
		return bus > 0xff || slot > 0x1f || function > 7 ?
			NULL : pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, function));
	if (sscanf(text, "%x:%x%c", &vendor, &device, &more) != 2 || vendor > 0xffff || device > 0xffff)
		return NULL;
	pdev = pci_get_device(vendor, device, NULL);
	if (!pdev)
		return NULL;
	pci_dev_get(pdev);	/* the next call gives one back */
	other = pci_get_device(vendor, device, pdev);
	if (!other)
		return pdev;
	pr_err(KBUILD_MODNAME ": there are several functions %s: name one by its address\n", text);
	pci_dev_put(other);
	pci_dev_put(pdev);
	return NULL;
}

static ssize_t bar_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	char line[64] = "", function[20], number[12], force[6] = "", more;
	struct pci_dev *pdev;
	int ret, words;
	u32 us;

	if (size >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, size))
		return -EFAULT;
	words = sscanf(line, "%19s %11s %5s %c", function, number, force, &more);
	if (words < 2 || words > 3 || (words == 3 && strcmp(force, "force")))
		return -EINVAL;
	if (kstrtou32(number, 10, &us) || !us || us > LONGEST_US)
		return -EINVAL;
	pdev = find(function);
	if (!pdev)
		return -ENODEV;
	ret = mutex_lock_killable(&state.lock);
	if (!ret) {
		state.measured = false;
		ret = measure_enabled(pdev, us, words == 3);
		state.measured = !ret;
		mutex_unlock(&state.lock);
	}
	pci_dev_put(pdev);
	return ret ? ret : size;
}

static void show_result(struct seq_file *file, unsigned int number)
{
	const struct operation *operation = &operations[number];
	const struct result *result = &state.results[number];

	seq_printf(file, "%s\n\"%u\": {\"operation\": \"%s\", \"width\": %u, \"threads\": 1, \"bytes\": %llu, \"ns\": %llu, \"wrong\": %zu",
		   number ? "," : "", number, operation->name, operation->width, result->bytes, result->ns, result->wrong);
	if (result->wrong)
		seq_printf(file, ", \"first\": %zu, \"expected\": %u, \"found\": %u", result->first, result->expected,
			   result->found);
	seq_puts(file, "}");
}

static int bar_show(struct seq_file *file, void *unused)
{
	unsigned int number;

	if (mutex_lock_killable(&state.lock))
		return -EINTR;
	if (!state.measured) {
		mutex_unlock(&state.lock);
		return -ENODATA;
	}
	seq_printf(file, "{\"program\": \"" KBUILD_MODNAME "\", \"device\": \"%s\", \"vendor\": %u, \"id\": %u,\n",
		   state.function, state.vendor, state.device);
	seq_printf(file, "\"bar\": %d, \"bar_bytes\": %llu, \"length\": %zu, \"verified\": true,\n",
		   state.bar, state.bar_bytes, state.bytes);
	seq_puts(file, "\"run\": {");
	for (number = 0; number < ARRAY_SIZE(operations); number++)
		show_result(file, number);
	seq_puts(file, "\n}\n}\n");
	mutex_unlock(&state.lock);
	return 0;
}

static int bar_open(struct inode *inode, struct file *file)
{
	file->private_data = NULL;	/* misc_open() left the device there, which seq_open() warns of */
	return single_open(file, bar_show, NULL);
}

static const struct file_operations bar_operations = {
	.owner = THIS_MODULE,
	.open = bar_open,
	.read = seq_read,
	.write = bar_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static struct miscdevice node = {
	.minor = MISC_DYNAMIC_MINOR, .name = KBUILD_MODNAME, .fops = &bar_operations, .mode = 0600
};
module_misc_device(node);

MODULE_DESCRIPTION("Measures the kernel's stores to and loads from the memory of a PCI function");
MODULE_LICENSE("GPL");
