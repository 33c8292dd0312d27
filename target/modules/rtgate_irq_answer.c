// SPDX-License-Identifier: GPL-2.0-only
/*
 * Answers each rising edge of a GPIO line by a pulse on another one, so that an instrument outside of the board can count
 * the time from the one to the other (target/instrument).
 *
 * Write `CONTEXT PULSE ANSWER` to /dev/rtgate_irq_answer. CONTEXT is where the handler runs: `hard`, in hard-interrupt
 * context also with PREEMPT_RT, or `threaded`. PULSE and ANSWER are lines as LABEL:LINE, the label of their GPIO chip and
 * their number there: gpio3:12. Reading tells how many edges were answered, and `threaded` if a handler for hard-interrupt
 * context ran elsewhere. Both lines are given back when the file is closed: so they are free whatever ends the program
 * that has opened it.
 *
 * The lines are found by a table of lookups, so the device tree stays as it is, and any chip serves, gpio-sim's too.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitops.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/gpio/consumer.h>
#include <linux/gpio/machine.h>
#include <linux/interrupt.h>
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/string.h>
#include <linux/uaccess.h>

static struct {
	unsigned long opened;
	struct mutex lock;
	struct gpio_desc *pulse, *answer;
	int irq;			/* 0 while no lines are taken */
	unsigned int answered;
	bool threaded;			/* a handler for hard-interrupt context ran elsewhere */
} board = { .lock = __MUTEX_INITIALIZER(board.lock) };

/* dev_id is the name of our device, for which the lines are requested. */
static struct gpiod_lookup_table lookups = {
	.dev_id = KBUILD_MODNAME,
	.table = {
		GPIO_LOOKUP("", 0, "pulse", GPIO_ACTIVE_HIGH | GPIO_PULL_DOWN),	/* an open wire is quiet */
		GPIO_LOOKUP("", 0, "answer", GPIO_ACTIVE_HIGH),
		{ }
	},
};

static struct miscdevice node;

static irqreturn_t answer_hard(int irq, void *data)
{
	gpiod_set_value(board.answer, 1);
	udelay(1);	/* the instrument and a level shifter must see it */
	gpiod_set_value(board.answer, 0);
	WRITE_ONCE(board.answered, board.answered + 1);
	/* As below a GPIO chip whose own interrupt PREEMPT_RT made a thread of. */
	if (!in_hardirq())
		WRITE_ONCE(board.threaded, true);
	return IRQ_HANDLED;
}

static irqreturn_t answer_threaded(int irq, void *data)
{
	gpiod_set_value_cansleep(board.answer, 1);
	udelay(1);
	gpiod_set_value_cansleep(board.answer, 0);
	WRITE_ONCE(board.answered, board.answered + 1);
	return IRQ_HANDLED;
}

static int parse_line(struct gpiod_lookup *lookup, char *name)
{
	char *colon = strrchr(name, ':');	/* a label may have colons itself */

	/* U16_MAX has a meaning of its own. */
	if (!colon || colon == name || kstrtou16(colon + 1, 10, &lookup->chip_hwnum) || lookup->chip_hwnum == U16_MAX) {
		pr_err("%s is not a line (LABEL:LINE, as gpio3:12)\n", name);
		return -EINVAL;
	}
	*colon = '\0';
	lookup->key = name;
	return 0;
}

static struct gpio_desc *take_line(const struct gpiod_lookup *lookup, enum gpiod_flags flags)
{
	struct gpio_desc *line = gpiod_get(node.this_device, lookup->con_id, flags);

	if (line == ERR_PTR(-EPROBE_DEFER))
		line = ERR_PTR(-ENODEV);
	if (IS_ERR(line))
		pr_err("%s: no line %s:%u: %ld\n", lookup->con_id, lookup->key, lookup->chip_hwnum, PTR_ERR(line));
	return line;
}

static int take_interrupt(bool threaded)
{
	int irq = gpiod_to_irq(board.pulse), ret;

	if (irq < 0) {
		pr_err("the pulse's line raises no interrupts: %d\n", irq);
		return irq;
	}
	if (!threaded && (gpiod_cansleep(board.pulse) || gpiod_cansleep(board.answer))) {
		pr_err("a line of a chip that sleeps cannot be used in hard-interrupt context: choose threaded\n");
		return -EINVAL;
	}
	board.answered = 0;
	if (threaded)
		ret = request_threaded_irq(irq, NULL, answer_threaded, IRQF_TRIGGER_RISING | IRQF_ONESHOT,
					   KBUILD_MODNAME, &board);
	else
		ret = request_irq(irq, answer_hard, IRQF_TRIGGER_RISING | IRQF_NO_THREAD, KBUILD_MODNAME, &board);
	if (ret)
		pr_err("interrupt %d cannot be requested: %d\n", irq, ret);
	else
		board.irq = irq;
	return ret;
}

static int take_lines(bool threaded)
{
	int ret;

	board.pulse = take_line(&lookups.table[0], GPIOD_IN);
	if (IS_ERR(board.pulse))
		return PTR_ERR(board.pulse);
	board.answer = take_line(&lookups.table[1], GPIOD_OUT_LOW);
	if (IS_ERR(board.answer)) {
		ret = PTR_ERR(board.answer);
		goto put_pulse;
	}
	ret = take_interrupt(threaded);
	if (ret)
		goto put_answer;
	return 0;

put_answer:
	gpiod_put(board.answer);
put_pulse:
	gpiod_put(board.pulse);
	return ret;
}

static int begin(char *text)
{
	char context[9], pulse[48], answer[48];
	int ret;

	if (board.irq)
		return -EBUSY;
	if (sscanf(text, "%8s %47s %47s", context, pulse, answer) != 3 ||
	    (strcmp(context, "hard") && strcmp(context, "threaded")))
		return -EINVAL;
	ret = parse_line(&lookups.table[0], pulse);
	if (!ret)
		ret = parse_line(&lookups.table[1], answer);
	if (ret)
		return ret;
	gpiod_add_lookup_table(&lookups);
	ret = take_lines(context[0] == 't');
	gpiod_remove_lookup_table(&lookups);
	return ret;
}

static ssize_t answer_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	char text[128] = "";
	int ret;

	if (size >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, size))
		return -EFAULT;
	mutex_lock(&board.lock);
	ret = begin(text);
	mutex_unlock(&board.lock);
	return ret ? ret : size;
}

static ssize_t answer_read(struct file *file, char __user *to, size_t size, loff_t *at)
{
	char text[32];
	int length = scnprintf(text, sizeof(text), "answered %u%s\n", READ_ONCE(board.answered),
			       READ_ONCE(board.threaded) ? " threaded" : "");

	return simple_read_from_buffer(to, size, at, text, length);
}

static int answer_open(struct inode *inode, struct file *file)
{
	if (test_and_set_bit_lock(0, &board.opened))
		return -EBUSY;
	board.answered = 0;
	board.threaded = false;
	return 0;
}

static int answer_release(struct inode *inode, struct file *file)
{
	if (board.irq) {
		free_irq(board.irq, &board);
		gpiod_put(board.answer);
		gpiod_put(board.pulse);
		board.irq = 0;
	}
	clear_bit_unlock(0, &board.opened);
	return 0;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = answer_open,
	.read = answer_read,
	.write = answer_write,
	.llseek = noop_llseek,
	.release = answer_release,
};

static struct miscdevice node = { .minor = MISC_DYNAMIC_MINOR, .name = KBUILD_MODNAME, .fops = &operations, .mode = 0600 };
module_misc_device(node);

MODULE_DESCRIPTION("Answers edges of a GPIO line by pulses on another one");
MODULE_LICENSE("GPL");
