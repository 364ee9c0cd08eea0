"""A tunnel server elsewhere: what a stack that names one makes, and what its units get."""

import asyncio
import copy
import json

import pytest

from components import derive
from policy.law import judge
from stacks.keys import Keys
from stacks.load import parse
from stacks.resolve import Stack
from tests.stack_files import FILES, SECRET, raw, served_by

PROD = raw(next(file for file in FILES if file.stem == "Pulumi.prod"))
CA = derive.Authority(SECRET, 0, "elsewhere").certificate
TOKEN = "the-token-of-somebody-elses-server"


def stack(address: str, keys: dict[str, str] | None = None, **more: object) -> Stack:
    """Give the production stack with its tunnel server at *address*, which has a gate where that gave *keys*."""
    config = copy.deepcopy(PROD)
    server = {"address": address, "port": 7001, "name": "frps.example.com", "ca": CA, "gate": bool(keys), **more}
    config["platform"]["ssh"] = served_by(server, config["platform"]["ssh"])
    config |= {"platformKeys": keys} if keys else {"serverToken": TOKEN}
    del config["platform"]["admits"], config["platform"]["browser"]
    del config["tenants"]["lab-a"]["storages"]["imagenet"]["browser"]
    for image in ("entrance", "frp", "gate"):
        del config["images"][image]
    secrets = ("secret", "serverToken", "platformKeys")
    return Stack(parse(config, {f"gpu-runtime:{key}" for key in secrets}), "prod")


@pytest.mark.parametrize(("address", "cidr"), [("10.9.9.9", "10.9.9.9/32"), ("fd00::9", "fd00::9/128")])
def test_units_reach_the_servers_address_and_nothing_near_it(address: str, cidr: str) -> None:
    """A private server is one address and one port in each unit's policy, and the law takes it as named."""
    manifests = stack(address).manifests()
    (policy,) = [m for m in manifests if (m["kind"], m["metadata"]["name"]) == ("NetworkPolicy", "unit-notebook-out")]

    assert policy["spec"]["egress"] == [
        {"to": [{"ipBlock": {"cidr": cidr}}], "ports": [{"protocol": "TCP", "port": 7001}]}
    ]
    assert [violation.text for violation in judge(manifests)] == []


def test_a_public_name_needs_no_row_of_its_own() -> None:
    """A server on the internet is reached as a part of it: a policy cannot open a name."""
    manifests = stack("ssh.example.com").manifests()

    assert "unit-notebook-out" not in {m["metadata"]["name"] for m in manifests if m["kind"] == "NetworkPolicy"}


def test_no_tier_is_made() -> None:
    """Where the servers are elsewhere, nothing of the platform's is made, and its namespace is not claimed."""
    made = stack("10.9.9.9")

    assert "gpu-runtime" not in {m["metadata"].get("namespace") for m in made.manifests()}
    assert "gpu-runtime" not in made.namespaces


def test_units_know_the_server_by_its_own_certificate_and_token() -> None:
    """The tunnel client gets the server's address, name, authority and token, not those of a tier of ours."""
    made = stack("fd00::9")
    unit = made.units["notebook.lab-a"]
    keys = Keys(made)

    async def files() -> dict[str, str]:
        secrets = keys.unit(unit, keys.host_key(unit)).tunnel
        return {name: str(await content.future()) for name, content in secrets.items()}  # type: ignore[union-attr]

    found = asyncio.run(files())

    assert (found["ca.crt"], found["token"]) == (CA, TOKEN)
    said = json.loads(found["tunnel.json"])
    assert (said["serverName"], said["tcpMux"]) == ("frps.example.com", True)
    assert said["servers"] == [{"name": "server", "address": "fd00::9", "port": 7001}]
