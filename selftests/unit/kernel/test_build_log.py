# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtgate.errors import BuildError, ConfigError, InfrastructureError, RtgateError
from rtgate.kernel.build_log import failure, step

TREE = Path("/home/u/linux")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  CC      init/main.o\n", "init/main.o"),
        ("  CC [M]  drivers/x.o\n", "drivers/x.o"),
        ("  LDS     arch/arm64/kernel/vmlinux.lds\n", "arch/arm64/kernel/vmlinux.lds"),
        ("  VDSO2C  x.c\n", "x.c"),
        ("make[1]: Entering directory\n", None),
        ("  in function\n", None),
        ("# command line\n", None),
    ],
)
def test_step(line: str, expected: str | None) -> None:
    assert step(line) == expected


COMPILER = """\
  CC      init/main.o
/home/u/linux/kernel/fork.c: In function 'fork':
/home/u/linux/kernel/fork.c:12:9: warning: unused
/home/u/linux/kernel/fork.c:13:9: error: 'x' undeclared
make[3]: *** [scripts/Makefile.build:229: kernel/fork.o] Error 1
"""
# Of gcc 12 (its quotation marks made plain), Linux 6.12.117, 2026-11-25: a static_assert at the end of a file.
MACRO = """\
In file included from ../include/linux/bits.h:32,
                 from ../kernel/time/hrtimer.c:25:
../include/linux/build_bug.h:78:41: error: static assertion failed: "this needs PREEMPT_RT"
   78 | #define __static_assert(expr, msg, ...) _Static_assert(expr, msg)
      |                                         ^~~~~~~~~~~~~~
../include/linux/build_bug.h:77:34: note: in expansion of macro '__static_assert'
   77 | #define static_assert(expr, ...) __static_assert(expr, ##__VA_ARGS__, #expr)
      |                                  ^~~~~~~~~~~~~~~
../kernel/time/hrtimer.c:2432:1: note: in expansion of macro 'static_assert'
 2432 | static_assert(IS_ENABLED(CONFIG_PREEMPT_RT), "this needs PREEMPT_RT");
      | ^~~~~~~~~~~~~
make[5]: *** [../scripts/Makefile.build:234: kernel/time/hrtimer.o] Error 1
../kernel/fork.c:1:1: note: in expansion of macro 'OTHER'
"""
LINKER = """\
aarch64-linux-gnu-ld: a.o: in function `f':
a.c:(.text+0x4): undefined reference to `g'
"""
DISK = "a.c:1:1: error: x\ncc1: fatal error: error writing: No space left on device\n"
KCONFIG = "init/Kconfig:7: syntax error\nmake: *** [Makefile:1: x] Error 1\n"
NO_RULE = "make[2]: *** No rule to make target 'a.o', needed by 'b'.  Stop.\n"
NO_BASE = "make: *** No rule to make target 'my_defconfig'.  Stop.\n"
NO_DEFCONFIG = '***\n*** Can\'t find default configuration "arch/arm64/configs/x_defconfig"!\n'
NO_HEADER = "../init/main.c:3:1: fatal error: x.h: No such file or directory\n"
NO_PROGRAM = "/bin/sh: 1: {}: not found\nmake[2]: *** [arch/arm64/boot/Makefile:24: Image] Error 127\n"
NO_LIBELF = "x.c:5:10: fatal error: gelf.h: No such file or directory\n"


@pytest.mark.parametrize(
    ("log", "error", "message"),
    [
        (COMPILER, BuildError, "kernel/fork.c:13:9: error: 'x' undeclared"),
        (MACRO, BuildError, 'failed: "this needs PREEMPT_RT", used in kernel/time/hrtimer.c:2432 (log: '),
        (NO_HEADER, BuildError, "init/main.c:3:1: fatal error"),
        ("../arch/arm64/x.S:7: Error: unknown mnemonic\n", BuildError, "arch/arm64/x.S:7: Error: unknown mnemonic"),
        (LINKER, BuildError, "undefined reference to `g'"),
        (KCONFIG, BuildError, "init/Kconfig:7: syntax error"),
        ('ERROR: modpost: "x" [y.ko] undefined!\n', BuildError, 'ERROR: modpost: "x"'),
        (NO_RULE, BuildError, "No rule to make target 'a.o'"),
        ("nothing helpful\n", BuildError, "without naming an error"),
        (DISK, InfrastructureError, "disk is full"),
        ("gcc: fatal error: Killed signal terminated program cc1\n", InfrastructureError, "--jobs"),
        (NO_LIBELF, InfrastructureError, "apt-get install libelf-dev"),
        ("/bin/sh: 1: flex: not found\n", InfrastructureError, "the program flex is missing"),
        ("/bin/sh: 1: flex: not found\n" + COMPILER, BuildError, "kernel/fork.c:13:9: error: 'x' undeclared"),
        ("/home/u/linux/scripts/x.sh: 82: cpio: not found\n", InfrastructureError, "the program cpio is missing"),
        (NO_PROGRAM.format("-O"), BuildError, "/bin/sh: 1: -O: not found"),  # $(OBJCOPYY) -O binary
        (NO_PROGRAM.format("objcopyy"), BuildError, "/bin/sh: 1: objcopyy: not found"),
        (NO_PROGRAM.format("lz4"), InfrastructureError, "the program lz4 is missing (Debian: apt-get install lz4)"),
        (f"/home/u/linux/kernel/{NO_LIBELF}", BuildError, "kernel/x.c:5:10: fatal error: gelf.h"),
        (f"/home/u/linux/tools/objtool/{NO_LIBELF}", InfrastructureError, "apt-get install libelf-dev"),
        (NO_BASE, ConfigError, "has no configuration 'my_defconfig'"),
        (NO_DEFCONFIG, ConfigError, "x_defconfig"),
    ],
)
def test_failure(tmp_path: Path, log: str, error: type[RtgateError], message: str) -> None:
    (tmp_path / "build.log").write_text(log)
    found = failure(tmp_path / "build.log", TREE)
    assert type(found) is error
    assert message in str(found)
    assert "\n" not in str(found)
    assert f"(log: {tmp_path / 'build.log'})" in str(found)
    assert "/home/u/linux/kernel" not in str(found)


@pytest.mark.parametrize("tree", ["/usr/src/linux", "/home/u/tools/linux"])
def test_where_the_tree_lies_does_not_say_whose_fault_a_header_is(tmp_path: Path, tree: str) -> None:
    (tmp_path / "build.log").write_text(f"{tree}/drivers/{NO_LIBELF}")
    assert type(failure(tmp_path / "build.log", Path(tree))) is BuildError


@pytest.mark.parametrize("line", ["cp: No space left on device", "gcc: fatal error: Killed signal terminated program"])
def test_an_unreviewed_build_does_not_say_that_the_machine_is_at_fault(tmp_path: Path, line: str) -> None:
    """A Makefile prints what it likes: a change that fails would pass for a lab's trouble."""
    (tmp_path / "build.log").write_text(f"{line}\nkernel/fork.c:13:9: error: 'x' undeclared\n")
    found = failure(tmp_path / "build.log", TREE, trusted=False)
    assert type(found) is BuildError
    assert str(found).startswith("kernel/fork.c:13:9: error: 'x' undeclared; the build itself says: the ")


def test_no_log(tmp_path: Path) -> None:
    assert isinstance(failure(tmp_path / "build.log", TREE), InfrastructureError)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_log_gives_an_error(tmp_path: Path, log: bytes) -> None:
    (tmp_path / "build.log").write_bytes(log)
    assert isinstance(failure(tmp_path / "build.log", TREE), RtgateError)
