"""Stack files of any size, as a platform engineer would write them, and what the law sees of them."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from components import names
from components.model import Manifest
from stacks.load import parse
from stacks.resolve import Stack
from stacks.schema import PLATFORM_IMAGES

PREFIX = f"{names.PROJECT}:"
SECRET = "0123456789abcdef" * 4
"""Stands where the engine's decrypted secret will be; it only fills what is judged and counted here."""

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICBDsU6Oa76eYXF5z5bHza/dc58c1UFQHxGcF6sH0frY bench"
CONTEXT = "nowhere"
USER = "alice"

Config = dict[str, Any]


def nowhere() -> Config:
    """Give a kubeconfig whose server refuses every connection at once, so that nobody waits for a network."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": CONTEXT, "user": {}}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT}}],
    }


def of_size(units: int, kubeconfig: str) -> Config:
    """Give a stack file of one tenant with *units* units that are reached by SSH, without its secret."""
    ssh = {"kind": "frp", "domainSuffixes": ["ssh.example.com"], "connect": {"host": "ssh.example.com"}}
    said = {
        "cluster": {
            "context": CONTEXT,
            "kubeconfig": kubeconfig,
            "podCidrs": ["10.244.0.0/16"],
            "apiServerCidrs": ["10.245.0.1/32"],
        },
        "platform": {"ssh": ssh},
        "images": {name: _image(name) for name in (*PLATFORM_IMAGES, "python")},
        "flavors": {"h100": {"gpus": 1, "cpu": "8", "memory": "64Gi", "ephemeral": "50Gi"}},
        "tenants": {"lab": {"units": {f"unit-{number}": _unit("python", "h100") for number in range(units)}}},
    }
    return {PREFIX + key: value for key, value in said.items()}


def manifests(config: Config, owner: str) -> list[Manifest]:
    """Give every object of the stack that *config* describes, secrets left blank.

    Raises RefusedError.
    """
    raw = {key.removeprefix(PREFIX): value for key, value in config.items()}
    return Stack(parse({**raw, "secret": SECRET}, {f"{PREFIX}secret"}), owner).manifests()


def grown(template: Config, tenant: str, unit: str, extra: int, cpu: str = "300m") -> Config:
    """Give *template* with *extra* small units of *cpu* each beside *unit* of *tenant*, whose image they run.

    They use far less of a processor than units with GPUs, but not so little that sshd waits for its next share of
    it. No quota stops them, and nobody's key is in them yet: `up` on a rig writes its own there.
    """
    said = template[f"{PREFIX}tenants"][tenant]
    late = {**_unit(said["units"][unit]["image"], "small"), "ssh": {"username": USER, "authorizedKeys": []}}
    units = {**said["units"], **{f"late-{number}": late for number in range(extra)}}
    small = {"gpus": 1, "cpu": cpu, "memory": "64Mi", "ephemeral": "1Gi"}
    return {
        **template,
        f"{PREFIX}flavors": {**template[f"{PREFIX}flavors"], "small": small},
        f"{PREFIX}tenants": {**template[f"{PREFIX}tenants"], tenant: {**said, "quota": {}, "units": units}},
    }


def without_pages(template: Config) -> Config:
    """Give *template* without its browser, its storages' pages and its units' web ports."""
    made: Config = deepcopy(template)
    made[f"{PREFIX}platform"].pop("browser", None)
    for tenant in made[f"{PREFIX}tenants"].values():
        for said in (*tenant.get("storages", {}).values(), *_ports(tenant)):
            said.pop("browser", None)
            said.pop("expose", None)
    return made


def _ports(tenant: Config) -> Iterator[Config]:
    return (port for unit in tenant.get("units", {}).values() for port in unit.get("ports", ()))


def _image(name: str) -> str:
    """Give a reference by digest; nothing is ever pulled."""
    return f"localhost/gpu-runtime/{name}@sha256:{name.encode().hex():0<64}"


def _unit(image: str, flavor: str) -> Config:
    return {
        "flavor": flavor,
        "image": image,
        "env": {"WANDB_MODE": "offline"},
        "ports": [{"name": "http", "port": 8888, "expose": "tenant"}],
        "ssh": {"username": USER, "authorizedKeys": [KEY]},
    }
