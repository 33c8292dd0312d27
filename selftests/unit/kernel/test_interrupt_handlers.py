# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.kernel.interrupt_handlers import HandlerCalls, handler_calls

from .linked import kernel

SOURCE = """
void __handle_irq_event_percpu(void) { asm volatile("nop"); }
void handle_percpu_devid_irq(void) { asm volatile("nop // 2"); }
void handle_fasteoi_irq(void) { asm volatile("nop // 3"); }
void irq_thread_fn(void) { asm volatile("nop // 4"); }
void irq_thread_dtor(void) { asm volatile("nop // 5"); }
void __sysvec_irq_work(void) { asm volatile("nop // 6"); }
void sysvec_irq_work(void) { asm volatile("nop // 7"); }
"""


@pytest.mark.parametrize("arch", ["arm64", "x86_64"])
def test_functions_that_call_handlers_are_found(tmp_path: Path, arch: str) -> None:
    linked = kernel(arch, tmp_path, "one", a=SOURCE.replace("//", "#" if arch == "x86_64" else "//"))
    calls = handler_calls(linked)
    for spans, names in (
        (calls.interrupts, {"__handle_irq_event_percpu", "handle_percpu_devid_irq"}),
        (calls.threads, {"irq_thread_fn"}),
        (tuple((address, address + 1) for address in calls.vectors), {"__sysvec_irq_work"}),
    ):
        assert {linked.function_at(start) for start, _ in spans} == names
        assert {linked.function_at(end - 1) for _, end in spans} == names


def test_a_kernel_without_them_has_none(tmp_path: Path) -> None:
    assert handler_calls(kernel("arm64", tmp_path, "one", a="int first(void) { return 1; }")) == HandlerCalls()
