"""The stack files of this repository, as the program would get them."""

from pathlib import Path
from typing import Any

import yaml

from components import derive
from stacks.keys import Keys
from stacks.load import parse
from stacks.resolve import Stack
from stacks.server_checks import OF_OUR_OWN

STACKS = Path(__file__).parents[1] / "stacks"
FILES = sorted(STACKS.glob("Pulumi.*.yaml"))
ENCRYPTED = frozenset({"gpu-runtime:secret", "gpu-runtime:platformKeys"})
SECRET = "0123456789abcdef" * 4
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICBDsU6Oa76eYXF5z5bHza/dc58c1UFQHxGcF6sH0frY alice@laptop"
IMAGES = ("bundle", "dufs", "entrance", "frp", "gate", "prepare", "probe", "proxy", "routes", "tunnel", "python")


def image(name: str) -> str:
    """Give a reference by digest, as the rig's catalogue would."""
    return f"localhost/gpu-runtime/{name}@sha256:{name.encode().hex():0<64}"


def raw(path: Path) -> dict[str, Any]:
    """Read a stack file below ``gpu-runtime:``, with what `make up` or the operator adds to it."""
    config = yaml.safe_load(path.read_text())["config"]
    said = {key.removeprefix("gpu-runtime:"): value for key, value in config.items()}
    said["secret"] = SECRET
    if path.stem == "Pulumi.local":
        ranges = {"podCidrs": ["10.244.0.0/16"], "serviceCidrs": ["10.96.0.0/16"]}
        said["cluster"] = {"context": "rig-test", "apiServerCidrs": ["10.99.0.2/32"], **ranges}
        said["images"] = {name: image(name) for name in IMAGES}
        said["tenants"]["lab-a"]["units"]["trainer"]["ssh"]["authorizedKeys"] = [KEY]
    if path.stem == "Pulumi.lab":
        said |= handed_over()
    return said


def handed_over() -> dict[str, Any]:
    """Give what the production stack hands to the stack `lab`, which it admits."""
    config = parse(raw(STACKS / "Pulumi.prod.yaml"), {"gpu-runtime:secret"})
    outputs = Keys(Stack(config, "prod"))
    secret = derive.stack_key(derive.gate_key(SECRET, config.epoch), "lab").hex()
    keys = {"key": secret, "token": derive.frp_token(SECRET, config.epoch)}
    return {"platformStack": outputs.handed_over(), "platformKeys": keys}


def served_by(server: dict[str, Any], ssh: dict[str, Any]) -> dict[str, Any]:
    """Give what is said of *ssh*, with a tunnel *server* elsewhere in place of our own and of what is said of those."""
    return {**{key: value for key, value in ssh.items() if key not in OF_OUR_OWN}, "server": server}


def stack_name(path: Path) -> str:
    """Give the stack's name, which is its owner label."""
    return path.stem.removeprefix("Pulumi.")
