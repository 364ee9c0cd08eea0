"""What a new secret does to the tunnel tier: who believes whom while old and new are both about, and what rolls."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pulumi
from cryptography import x509

from components import derive
from components.roll import notice
from components.tunnel import SERVER_NAME, TunnelSecrets, tunnel_manifests
from stacks.keys import Keys
from stacks.load import parse
from stacks.resolve import Stack
from tests.stack_files import ENCRYPTED, SECRET, STACKS, raw

PREVIOUS = SECRET[::-1]
PROD = raw(STACKS / "Pulumi.prod.yaml")


def stack(**changes: Any) -> Stack:
    """Give the production stack with *changes*."""
    return Stack(parse({**PROD, **changes}, {*ENCRYPTED, "gpu-runtime:previousSecret"}), "prod")


def tier(**changes: Any) -> tuple[TunnelSecrets, dict[str, str]]:
    """Give the tier's secrets of a stack, and the opened files of frps."""

    async def opened() -> tuple[TunnelSecrets, dict[str, str]]:
        made = Keys(stack(**changes)).tunnel()
        return made, await _plain(made.frps)

    return asyncio.run(opened())


async def _plain(files: Mapping[str, Any]) -> dict[str, str]:
    return {k: str(await v.future()) if isinstance(v, pulumi.Output) else v for k, v in files.items()}


def unit_files(**changes: Any) -> dict[str, str]:
    """Give the opened files of a unit's tunnel client."""
    made = stack(**changes)
    unit = made.units["notebook.lab-a"]

    async def opened() -> dict[str, str]:
        keys = Keys(made)
        return await _plain(keys.unit(unit, keys.host_key(unit)).tunnel)

    return asyncio.run(opened())


def authority(secret: str) -> x509.Certificate:
    """Give the certificate of the stack's authority under *secret*."""
    return x509.load_pem_x509_certificate(derive.Authority(secret, PROD.get("epoch", 0), "prod").certificate.encode())


def test_both_authorities_are_believed_while_a_secret_is_replaced() -> None:
    """Units and tunnel servers trust the old and the new authority; certificates and token are the new one's alone."""
    changes = {"secret": SECRET, "previousSecret": PREVIOUS}
    (_, frps), unit = tier(**changes), unit_files(**changes)
    both = [authority(SECRET), authority(PREVIOUS)]

    assert x509.load_pem_x509_certificates(frps["ca.crt"].encode()) == both
    assert x509.load_pem_x509_certificates(unit["ca.crt"].encode()) == both
    served = x509.load_pem_x509_certificate(frps["tls.crt"].encode())
    served.verify_directly_issued_by(authority(SECRET))
    assert SERVER_NAME in served.subject.rfc4514_string()
    assert frps["token"] == unit["token"] == derive.frp_token(SECRET, PROD.get("epoch", 0))


def test_afterwards_the_old_authority_is_believed_no_more() -> None:
    """Without a previous secret there is one authority."""
    assert x509.load_pem_x509_certificates(unit_files(secret=SECRET)["ca.crt"].encode()) == [authority(SECRET)]


def test_what_rolls_the_servers() -> None:
    """Another secret or epoch rolls them; the end of a rotation does not: it would end every session once more."""
    before = tier(secret=SECRET)[0].frps_fingerprint

    assert tier(secret=PREVIOUS)[0].frps_fingerprint != before
    assert tier(secret=SECRET, epoch=int(PROD.get("epoch", 0)) + 1)[0].frps_fingerprint != before
    assert tier(secret=SECRET, previousSecret=PREVIOUS)[0].frps_fingerprint == before


def servers(**ssh: Any) -> dict[str, Any]:
    """Give the Deployments of the tunnel servers, with *ssh* changed."""
    platform = {**PROD["platform"], "ssh": {**PROD["platform"]["ssh"], **ssh}}
    made = stack(platform=platform)
    assert made.tunnel
    addresses: dict[str, str] = defaultdict(lambda: "10.43.0.9")
    found = tunnel_manifests(made.tunnel, TunnelSecrets({}, {}, "", ""), addresses)
    return {role: one for role, one in found.items() if role[-1].isdigit()}


def test_another_number_of_servers_rolls_none() -> None:
    """Servers come and go beside each other; a limit, which HAProxy reads when it starts, rolls them."""
    two = servers(replicas=2)

    assert servers(replicas=3) | two == servers(replicas=3)
    assert servers(replicas=2, limits={"perUnit": 70})["frps-0"] != two["frps-0"]


def test_the_preview_says_what_a_roll_does() -> None:
    """Who replaces a tunnel server is told what becomes of its sessions; another label is nothing to tell."""
    old = servers(drain="1m")["frps-0"]
    new = servers(drain="2m")["frps-0"]

    assert notice("frps-0", old, old | {"metadata": {}}) is None
    said = notice("frps-0", old, new)
    assert said is not None
    assert "tunnel server frps-0 is replaced" in said
    assert "after 60 s" in said


def test_a_bandwidth_limit_is_the_gates_to_say_and_rolls_the_servers() -> None:
    """The gate has it in a file, which it reads anew; a server's roll announces each unit anew, under the limit."""
    ssh = PROD["platform"]["ssh"]
    limited = {"platform": {**PROD["platform"], "ssh": {**ssh, "limits": {"bandwidth": "50MB"}}}}

    async def said(**changes: Any) -> tuple[str, Any, Any]:
        made = stack(**changes)
        secrets = Keys(made).tunnel()
        assert made.tunnel
        built = tunnel_manifests(made.tunnel, secrets, defaultdict(lambda: "10.43.0.9"))
        frps, gate = (built[name]["spec"]["template"]["metadata"]["annotations"] for name in ("frps-0", "gate"))
        return (await _plain(secrets.gate))["bandwidth"], frps, gate

    none, one = asyncio.run(said()), asyncio.run(said(**limited))

    assert (none[0], one[0]) == ("none", "50MB")
    assert none[1] != one[1]
    assert none[2] == one[2]
