#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes an endpoint of a board whose device tree has one controller in endpoint mode, by mainline's test function
# (Documentation/PCI/endpoint/pci-test-howto.rst). It has the identity of an RK3588, because for that the driver of the
# root complex, pci_endpoint_test, knows the alignment. MSIs and MSI-X are as many as the kernel's own test wants.
set -e
fail() {
	echo "set-up: $*" >&2
	exit 1
}
[ -d /sys/kernel/config ] || fail "the kernel has no configfs (CONFIG_CONFIGFS_FS)"
grep -q ' /sys/kernel/config ' /proc/mounts || mount -t configfs none /sys/kernel/config
cd /sys/kernel/config/pci_ep || fail "the kernel makes no endpoint (CONFIG_PCI_ENDPOINT_CONFIGFS)"
set -- controllers/*
[ -d "$1" ] || fail "no controller in endpoint mode: the device tree has none, or its driver is absent"
[ $# -eq 1 ] || fail "several controllers in endpoint mode: $*"
[ -d functions/pci_epf_test ] || fail "the kernel has no test function (CONFIG_PCI_EPF_TEST, built in)"
function=$PWD/functions/pci_epf_test/rtgate
mkdir "$function"
echo 0x1d87 >"$function/vendorid"
echo 0x3588 >"$function/deviceid"
echo 32 >"$function/msi_interrupts"
echo 2048 >"$function/msix_interrupts"
ln -s "$function" "$1/"
echo 1 >"$1/start"
