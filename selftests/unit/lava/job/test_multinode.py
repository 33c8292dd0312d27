# SPDX-License-Identifier: MIT
"""A job of two boards. What LAVA's own tools say of it, and that it runs, is tested in selftests/lab."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from selftests.conftest import Golden
from selftests.lava_server import split
from selftests.unit.lava.job.test_definition import arm, files_for, request_for, steps

from rtgate.errors import ConfigError
from rtgate.lava.job import multinode
from rtgate.lava.job.definition import JobRequest, Transport
from rtgate.lava.job.multinode import ENDPOINT, ROOT_COMPLEX, Endpoint
from rtgate.lava.job.server_definition import Definition

SET_UP = "cd /sys/kernel/config/pci_ep\nmkdir functions/pci_epf_test/rtgate\n"
RC, EP = "rk3588-evb1", "rk3568-evb1"


def root_complex(**changes: Any) -> JobRequest:
    made = {"arms": (files_for(RC, "candidate"),), "boots": ("candidate", "candidate"), "tags": ("pair-1",), **changes}
    return request_for(RC, **made)


def endpoint(set_up: str = SET_UP) -> Endpoint:
    request = request_for(
        EP,
        arms=(files_for(EP, "candidate"),),
        transport=Transport.BOARD,
        steps=(("sh ./go.sh",),),
        tags=("pair-1",),
        metadata={"rtgate.endpoint.1": "{}"},
    )
    return Endpoint(request=request, set_up=set_up)


def job(root: JobRequest | None = None, other: Endpoint | None = None) -> dict[str, Any]:
    made = yaml.safe_load(multinode.render(root or root_complex(), other or endpoint()))
    assert isinstance(made, dict)
    return made


def parts() -> dict[str, dict[str, Any]]:
    """Return the job of each role, as LAVA makes them."""
    made = split(job(), 7)
    return dict(zip((ROOT_COMPLEX, ENDPOINT), made, strict=True))


def test_the_job_is_as_reviewed(golden: Golden) -> None:
    root = root_complex(metadata={"rtgate.nonce": "0123456789abcdef", "rtgate.order.1": "{}"})
    golden("lava/jobs/two-boards.yaml", multinode.render(root, endpoint()))


def test_who_waits_for_whom() -> None:
    """Every message that one waits for is one that the other sends, and neither waits for its own."""
    made = parts()
    first = made[ROOT_COMPLEX]["actions"][0]["deploy"]["protocols"]["lava-multinode"]
    told = {role: [words[1] for words in signals(steps(made[role])) if words[0] == "lava-send"] for role in made}
    waits = {role: [words[1] for words in signals(steps(made[role])) if words[0] == "lava-wait"] for role in made}
    waits[ROOT_COMPLEX].insert(0, first[0]["messageID"])
    assert sorted(waits[ROOT_COMPLEX]) == sorted(told[ENDPOINT])
    assert sorted(waits[ENDPOINT]) == sorted(told[ROOT_COMPLEX])
    assert (len(told[ROOT_COMPLEX]), len(told[ENDPOINT])) == (2, 3)


def signals(lines: list[str]) -> list[list[str]]:
    plain = [part for line in lines for part in line.removeprefix("trap '").removesuffix("' EXIT").split("; ")]
    return [part.split() for part in plain if part.startswith("lava-")]


def test_the_endpoint_is_set_up_before_the_root_complex_boots_and_measures_before_it() -> None:
    made = parts()
    other = steps(made[ENDPOINT])
    ready = other.index("lava-send rtgate-endpoint-ready ready=yes")
    assert "rtgate-set-up" in other[0]
    assert ready < other.index("sh ./go.sh") < other.index("lava-wait rtgate-root-complex-end")
    own = steps(made[ROOT_COMPLEX])
    assert own.index("lava-wait rtgate-endpoint-idle") < next(n for n, step in enumerate(own) if "in-job" in step)


def test_the_end_is_told_by_the_last_boot_alone_and_whatever_becomes_of_it() -> None:
    tests = [action["test"] for action in parts()[ROOT_COMPLEX]["actions"] if "test" in action]
    lines = [test["definitions"][0]["repository"]["run"]["steps"] for test in tests]
    assert [any(line.startswith("trap ") for line in steps) for steps in lines] == [False, True]
    assert lines[1][0].startswith("trap ")


def test_each_role_has_the_files_and_the_console_of_its_board() -> None:
    made = parts()
    assert made[ROOT_COMPLEX]["device_type"] == RC
    assert made[ENDPOINT]["device_type"] == EP
    assert made[ENDPOINT]["actions"][0]["deploy"]["ramdisk"]["install_overlay"] is True
    assert [next(iter(action)) for action in made[ENDPOINT]["actions"]] == ["deploy", "boot", "test"]
    assert [next(iter(action)) for action in made[ROOT_COMPLEX]["actions"]] == ["deploy", "boot", "test"] * 2
    assert all(part["protocols"]["lava-multinode"]["tags"] == ["pair-1"] for part in made.values())


def test_only_the_first_boot_waits_for_what_the_endpoint_measures() -> None:
    tests = [action["test"]["timeout"]["seconds"] for action in parts()[ROOT_COMPLEX]["actions"] if "test" in action]
    assert tests == [root_complex().test_s + endpoint().request.test_s, root_complex().test_s]


@pytest.mark.parametrize(
    ("lines", "waits"),
    [
        ([], False),
        (["<LAVA_MULTI_NODE> <LAVA_WAIT rtgate-endpoint-idle>"], True),
        (["<LAVA_MULTI_NODE> <LAVA_WAIT rtgate-endpoint-idle>", "<LAVA_WAIT_COMPLETE>"], False),
        (["<LAVA_WAIT rtgate-endpoint-idle>", "<LAVA_WAIT_COMPLETE>", "<LAVA_WAIT rtgate-endpoint-there>"], True),
        (["<LAVA_MULTI_NODE> <LAVA_WAIT rtgate-root-complex-up>"], False),
    ],
)
def test_a_root_complex_that_waits_to_the_end_of_its_log_is_known(lines: list[str], *, waits: bool) -> None:
    assert multinode.unanswered(lines) is waits


def test_each_limit_is_the_longer_one_of_both_boards() -> None:
    first: dict[str, Any] = {"job": {"minutes": 9}, "action": {"minutes": 10}, "connection": {"minutes": 2}}
    first["actions"] = {"power-off": {"seconds": 30}, "own": {"seconds": 7}}
    second: dict[str, Any] = {"job": {"minutes": 8}, "action": {"seconds": 599}, "connection": {"minutes": 10}}
    second["actions"] = {"power-off": {"minutes": 2}}
    limits = multinode._timeouts({"timeouts": first}, {"timeouts": second}, 60)
    assert limits == {
        "job": {"minutes": 10},
        "action": {"minutes": 10},
        "connection": {"minutes": 10},
        "actions": {"power-off": {"minutes": 2}, "own": {"seconds": 7}},
    }


def test_no_action_has_more_time_than_the_job() -> None:
    made = job()
    whole = made["timeouts"]["job"]["minutes"] * 60
    for action in made["actions"]:
        for block in action.values():
            ((unit, number),) = block["timeout"].items()
            assert number * {"seconds": 1, "minutes": 60}[unit] <= whole


def test_the_root_complex_waits_as_long_as_the_endpoint_may_take() -> None:
    deploy = parts()[ROOT_COMPLEX]["actions"][0]["deploy"]
    other = parts()[ENDPOINT]["actions"]
    wait = deploy["protocols"]["lava-multinode"][0]["timeout"]["seconds"]
    assert wait >= sum(
        60 * action[kind]["timeout"]["minutes"] for action, kind in zip(other, ("deploy", "boot"), strict=False)
    )
    assert deploy["timeout"]["seconds"] > wait
    second = parts()[ROOT_COMPLEX]["actions"][3]["deploy"]
    assert "protocols" not in second


@given(st.text(max_size=300))
def test_a_set_up_of_any_text_reaches_no_shell_and_no_reader_of_signals(text: str) -> None:
    """LAVA prints each line of a step, and takes what looks like a signal for one."""
    rendered = multinode.render(root_complex(), endpoint(f"<LAVA_SIGNAL_TESTRAISE now> {text}"))
    assert "LAVA_SIGNAL" not in rendered
    assert [len(steps(part)) for part in split(yaml.safe_load(rendered), 1)] == [
        len(steps(part)) for part in parts().values()
    ]


def test_two_kernels_are_refused() -> None:
    both = root_complex(arms=(arm("baseline"), arm("candidate")), boots=("baseline", "candidate"))
    with pytest.raises(ConfigError, match="measures one kernel: leave the baseline out"):
        multinode.render(both, endpoint())


def test_roles_and_numbers_are_read_from_any_part() -> None:
    for role, part in parts().items():
        definition = Definition(yaml.safe_dump(part))
        assert definition.role == role
        assert definition.job_of(ENDPOINT) == 8
        assert definition.job_of(ROOT_COMPLEX) == 7


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "9" * 5000, ""])
def test_what_is_not_a_job_s_number_is_none(number: str) -> None:
    """Whoever submitted the job wrote its definition."""
    text = yaml.safe_dump({"protocols": {"lava-multinode": {"roles": {number: ENDPOINT}}}})
    assert Definition(text).job_of(ENDPOINT) == 0


@pytest.mark.parametrize("text", ["", "[]", "{", "protocols: 3", "protocols: {lava-multinode: []}", "job_name: x"])
def test_a_job_of_one_board_has_no_role(text: str) -> None:
    assert Definition(text).role == ""
    assert Definition(text).job_of(ENDPOINT) == 0
    assert (Definition(text).metadata, Definition(text).tags) == ({}, ())


def test_a_board_without_a_lab_is_refused() -> None:
    other = endpoint()
    nowhere = replace(other.request.board, lava=None)
    with pytest.raises(ConfigError, match="no lab can boot it"):
        multinode.render(root_complex(), replace(other, request=replace(other.request, board=nowhere)))
