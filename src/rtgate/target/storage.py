# SPDX-License-Identifier: MIT
"""The part of a plan that makes a board's NVMe storage ready, and the only one that writes to it.

Everything is looked at on the target itself before the first byte is written: that the disk is the one in the board's
file, that what is to be overwritten is there, is not in use, and holds nothing but zeros or what an earlier plan left.
Storage that a plan has taken begins with a mark of 15 bytes, in the block that file systems leave to boot loaders.
Whatever is otherwise is refused with the reason, in the file `refused`; a disk that the kernel does not show, in
`lost`. The test file is written from end to end before anything is measured.

Files that it leaves: `refused` or `lost`; `storage` (model, firmware, bytes, I/O scheduler); `health.start` and
`health.end`, what the disk says of its health before the first and after the last write; `fill.json`, `fill.err`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rtgate.board.storage import FILE, MARK, RESERVED, FileSystem, Overwrite
from rtgate.tools.needs import Need
from rtgate.tools.shell_script import fill

if TYPE_CHECKING:
    from rtgate.board.storage import Storage

_SLOWEST = 20e6  # bytes per second at which the test file is still written in time
_BLANK = 3018728591  # what cksum says of a MiB of zeros
_MAKE = {
    # Nothing is left for the kernel to do in the background, and what the disk knows of earlier writes stays.
    FileSystem.EXT4: "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0,nodiscard",
    FileSystem.F2FS: "mkfs.f2fs -q -f -t 0",
}
_MOUNT = {FileSystem.EXT4: "mount -t ext4", FileSystem.F2FS: "mount -t f2fs -o fsync_mode=nobarrier"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What a plan does with the board's storage.

    Attributes:
        size: bytes of the test file.
        fill: the command that writes the whole test file; its JSON goes to `fill.json`.
        directory: the board's work directory.
    """

    storage: Storage
    size: int
    fill: tuple[str, ...]
    directory: str

    @property
    def preparation_s(self) -> float:
        """Target seconds that making the storage ready may take."""
        return 60 + self.size / _SLOWEST


def needs(storage: Storage) -> tuple[Need, ...]:
    """Return what the target must have to make the storage ready."""
    kind = storage.file_system
    programs = "dd df mount stat sync umount"
    there = f"(for one in {programs}; do command -v $one || exit 1; done) >/dev/null"
    requirements = [Need(test=there, reason=f"the target lacks one of {programs}")]
    if kind is not FileSystem.NONE:
        program = _MAKE[kind].partition(" ")[0]
        kernel_test = f"{{ grep -qw {kind.value} /proc/filesystems || modprobe -q {kind.value}; }} 2>/dev/null"
        requirements.append(Need(test=f"command -v {program} >/dev/null", reason=f"the target has no {program}"))
        requirements.append(Need(test=kernel_test, reason=f"the kernel has no {kind.value} file system"))
    return tuple(requirements)


def prepare(use: Use) -> str:
    """Return the shell functions `prepare_storage`, `release_storage` and `leave_storage`."""
    storage = use.storage
    values = {
        "PLACE": shlex.quote(f"{use.directory}/nvme"),
        "SERIAL": shlex.quote(storage.serial),
        "MODEL": shlex.quote(storage.model),
        "NAME": shlex.quote(storage.name),
        "SIZE": use.size,
        "SECTORS": (use.size + RESERVED) // 512,
        "KIB": use.size // 1024,
        "BLANK": _BLANK,
        "MARK": shlex.quote(MARK),
        "CHOOSE": _CHOOSE[storage.overwrite],
        "CHECK": "check_directory" if storage.overwrite is Overwrite.FILE else "check_volume",
        "READY": _ready(storage),
        "REMOVE": '    [ -z "$taken" ] || rm -f "$named"\n' if storage.overwrite is Overwrite.FILE else "",
        "FILL": shlex.join(use.fill),
        **_scheduling(storage.scheduler),
    }
    return fill(_SCRIPT, values)


def _scheduling(scheduler: str) -> dict[str, str]:
    """Return what sets the disk's I/O scheduler and puts it back, a line each; nothing without one."""
    if not scheduler:
        return {"SCHEDULERS": "", "SCHEDULE": "", "UNSCHEDULE": ""}
    return {"SCHEDULERS": " schedulers=", "SCHEDULE": _SCHEDULE.replace("@NAME@", scheduler), "UNSCHEDULE": _UNSCHEDULE}


def _ready(storage: Storage) -> str:
    """Return what makes the test file's place out of the volume."""
    if storage.overwrite is Overwrite.FILE:
        return 'rm -f "$named"'
    if storage.file_system is FileSystem.NONE:
        return f'mark_volume && ln -sf "/dev/$volume" "$place/{FILE}"'
    kind = storage.file_system
    make = f'make_file_system {_MAKE[kind]} "/dev/$volume" && mark_volume'
    return f'{make} && mount_volume {_MOUNT[kind]} "/dev/$volume" "$place"'


_CHOOSE = {
    Overwrite.DISK: """    set -- "/sys/block/$disk/$disk"p*
    [ ! -e "$1" ] || { refuse "$disk has partitions, and is to be overwritten whole"; return 1; }
    volume=$disk""",
    Overwrite.PARTITION: """    for one in "/sys/block/$disk/$disk"p*; do
        grep -qxF "PARTNAME=$named" "$one/uevent" 2>/dev/null || continue
        [ -z "$volume" ] || { refuse "$disk has two partitions called $named"; return 1; }
        volume=${one##*/}
    done
    [ -n "$volume" ] || { refuse "$disk has no partition called $named"; return 1; }""",
    Overwrite.FILE: "    volume=$disk",
}

# A queue without schedulers takes every name, and says `none`. What is in use stands in brackets.
_SCHEDULE = r"""    read -r schedulers <"/sys/block/$disk/queue/scheduler"
    echo @NAME@ 2>/dev/null >"/sys/block/$disk/queue/scheduler"
    read -r now <"/sys/block/$disk/queue/scheduler"
    case $now in
    @NAME@ | *'[@NAME@]'*) echo "$now" >>storage ;;
    *) refuse "the kernel has no I/O scheduler @NAME@ for $disk (it has: $schedulers)"; return 1 ;;
    esac
"""
_UNSCHEDULE = r"""    before=${schedulers#*\[}
    [ -z "$schedulers" ] || echo "${before%%]*}" 2>/dev/null >"/sys/block/$disk/queue/scheduler"
    schedulers=
"""

# The `:` does nothing and stays: on virtual time another byte in the script moves what is measured.
_SCRIPT = r"""# Storage: written to only when everything is as the board's file says.
place=@PLACE@ named=@NAME@ disk= volume= taken= mounted=@SCHEDULERS@
refuse() {
    echo "$1: nothing was written" >>refused
    return 1
}
give_up() {
    echo "$1" >>refused
    return 1
}
sum() { dd if="$1" bs="$2" count=1 2>/dev/null | cksum; }
look_for_disk() {
    there=
    for one in /sys/block/nvme*n*; do
        [ -r "$one/device/serial" ] && [ "$(cat "$one/hidden" 2>/dev/null)" != 1 ] || continue
        read -r serial <"$one/device/serial"
        there="$there $serial"
        [ "$serial" = @SERIAL@ ] || continue
        [ -z "$disk" ] || { refuse "the disk $serial has several namespaces"; return 1; }
        disk=${one##*/}
    done
    [ -n "$disk" ]
}
# The kernel finds disks beside everything else: one that a boot has just begun with gets ten seconds to appear.
find_disk() {
    rest=100
    until look_for_disk || [ -s refused ] || [ $rest -eq 0 ]; do
        sleep 0.1
        rest=$((rest - 1))
    done
    [ ! -s refused ] || return
    if [ -z "$disk" ]; then
        echo "the kernel shows no NVMe disk with the serial number "@SERIAL@" (there are:${there:- none})" >lost
        return 1
    fi
    read -r model <"/sys/block/$disk/device/model"
    case @MODEL@ in
    '' | "$model") ;;
    *)
        refuse "the disk "@SERIAL@" is a $model and not a "@MODEL@
        return
        ;;
    esac
    read -r firmware <"/sys/block/$disk/device/firmware_rev"
    echo "$model, firmware $firmware, $(cat "/sys/block/$disk/size") sectors" >storage
    cat "/sys/block/$disk/queue/scheduler" >>storage
}
# Whether a volume is in use; one of which nobody can tell is.
used() {
    number=$(cat "/sys/class/block/$1/dev")
    [ -n "$number" ] && [ -r /proc/self/mountinfo ] || return 0
    cut -d ' ' -f 3 /proc/self/mountinfo | grep -qxF "$number" && return
    grep -qE " - [^ ]+ /dev/$1( |\$)" /proc/self/mountinfo && return
    grep -qE "^/dev/$1[[:space:]]" /proc/swaps 2>/dev/null && return
    set -- "/sys/class/block/$1/holders"/*
    [ -e "$1" ]
}
choose_volume() {
@CHOOSE@
}
check_volume() {
    device=/dev/$volume
    if used "$volume"; then refuse "$device is mounted or otherwise in use"; return 1; fi
    [ "$(cat "/sys/class/block/$volume/ro")" = 0 ] || { refuse "$device cannot be written to"; return 1; }
    [ "$(cat "/sys/class/block/$volume/size")" -ge @SECTORS@ ] ||
        { refuse "$device is too small for a test file of @SIZE@ bytes"; return 1; }
    [ "$(sum "$device" 15)" = "$(echo @MARK@ | cksum)" ] ||
        [ "$(sum "$device" 1048576)" = "@BLANK@ 1048576" ] ||
        refuse "$device holds something that is not rtgate's (if it may go: dd if=/dev/zero of=$device bs=1M count=1)"
}
check_directory() {
    [ -d "${named%/*}" ] || { refuse "there is no directory ${named%/*}"; return 1; }
    [ ! -L "$named" ] && { [ ! -e "$named" ] || [ -f "$named" ]; } || { refuse "$named is no ordinary file"; return 1; }
    number=$(stat -c %d "${named%/*}")
    number=$((number >> 8 & 4095)):$((number & 255 | number >> 12 & 1048320))
    cat "/sys/block/$disk/dev" "/sys/block/$disk/$disk"p*/dev 2>/dev/null | grep -qxF "$number" ||
        { refuse "${named%/*} does not lie on the disk "@SERIAL@; return 1; }
    rm -f "$named"
    set -- $(df -Pk "${named%/*}" | tail -n 1)
    [ "$4" -ge @KIB@ ] || refuse "the file system of ${named%/*} has only $4 KiB left for a test file of @KIB@ KiB"
}
mark_volume() {
    { echo @MARK@ | dd of="$device" conv=notrunc && sync; } 2>made || give_up "$device cannot be written to"
}
make_file_system() { "$@" >made 2>&1 </dev/null || give_up "$1 failed on $device: $(tail -n 1 made)"; }
mount_volume() {
    "$@" 2>made || { give_up "$device cannot be mounted: $(tail -n 1 made)"; return; }
    mounted=$place
    # Or what is written next lies somewhere else.
    used "$volume" || give_up "$device was mounted and is not"
}
health() {
    if command -v nvme-health; then nvme-health "/dev/$disk" >"health.$1" 2>health.err
    elif command -v nvme; then nvme smart-log -o json "/dev/$disk" >"health.$1" 2>health.err
    fi >/dev/null
}
prepare_storage() {
    umount "$place" 2>/dev/null
    mkdir -p "$place" && rm -f "$place/test"
    find_disk && choose_volume && @CHECK@ || return
    taken=yes
@SCHEDULE@    health start
    @READY@ || return
    @FILL@ >fill.out 2>fill.err </dev/null ||
        ! grep -q 'No space left on device' fill.err ||
        give_up "the test file of @SIZE@ bytes does not fit: $(tail -n 1 fill.err)"
    sync
}
leave_storage() {
    [ -z "$mounted" ] || umount "$place"
    mounted=
@REMOVE@@UNSCHEDULE@}
release_storage() {
    [ -n "$taken" ] || return
    health end
    :
    leave_storage
}
"""
