"""Bad stack files: each mistake is refused with its path and advice, all at once, before anything is registered."""

import copy
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest

from components import derive
from stacks.load import parse
from stacks.problems import RefusedError
from stacks.schema import StackConfig
from tests.stack_files import FILES, KEY, SECRET, image, raw, served_by

ENCRYPTED = {"gpu-runtime:secret", "gpu-runtime:serverToken", "gpu-runtime:platformKeys"}
PROD = raw(next(file for file in FILES if file.stem == "Pulumi.prod"))
UNIT = "tenants.lab-a.units.trainer"


def refused(change: Callable[[dict[str, Any]], object], encrypted: set[str] = ENCRYPTED) -> str:
    """Give what is said against the production stack after *change*."""
    changed = copy.deepcopy(PROD)
    change(changed)
    with pytest.raises(RefusedError) as caught:
        parse(changed, encrypted)
    return str(caught.value)


def at(path: str, value: object) -> Callable[[dict[str, Any]], object]:
    """Set the value at a dotted path."""

    def change(config: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        for key in parents:
            config = config.setdefault(key, {})
        config[last] = value

    return change


def without(key: str) -> Callable[[dict[str, Any]], object]:
    """Remove a top-level key."""
    return lambda config: config.pop(key)


LAB = "tenants.lab-a"
CA = derive.Authority(SECRET, 0, "elsewhere").certificate
HOLE = {"cidr": "10.1.2.3/32", "ports": [443], "reason": "license server"}


def allowing(cidr: str, **said: object) -> Callable[[dict[str, Any]], object]:
    """Open a range for the whole stack."""
    return at("egress.allow", [{**HOLE, "cidr": cidr, **said}])


def halves(cidr: str) -> Callable[[dict[str, Any]], object]:
    """Open a range of which both halves are blocked."""

    def change(config: dict[str, Any]) -> None:
        config["egress"]["allow"] = [{**HOLE, "cidr": cidr}]
        config["egress"]["blockedCidrs"] = [str(half) for half in ip_network(cidr).subnets()]

    return change


def many_exceptions(config: dict[str, Any]) -> None:
    """Open wide ranges with more blocked in them than an object holds."""
    config["egress"]["blockedCidrs"] = [f"fd00:0:0:{n:x}::/64" for n in range(0, 2000, 2)]
    config["egress"]["allow"] = [{**HOLE, "cidr": f"fd00::/{length}"} for length in range(9, 40)]


def elsewhere(
    address: str, *, token: str | None = SECRET, ca: str = CA, egress: dict[str, Any] | None = None
) -> Callable[[dict[str, Any]], object]:
    """Name a tunnel server elsewhere."""

    def change(config: dict[str, Any]) -> None:
        server = {"address": address, "name": "frps.example.com", "ca": ca}
        config["platform"]["ssh"] = served_by(server, config["platform"]["ssh"])
        config["egress"] = egress or {}
        if token:
            config["serverToken"] = token

    return change


def ports_of_tenant(stack: list[int], tenant: list[int]) -> Callable[[dict[str, Any]], object]:
    """Open ports of the internet for the stack and for lab-a."""

    def change(config: dict[str, Any]) -> None:
        config["egress"]["internetPorts"] = stack
        config["tenants"]["lab-a"]["egress"] = {"internetPorts": tenant}

    return change


@pytest.mark.parametrize(
    ("change", "path", "advice"),
    [
        (at(f"{UNIT}.flavour", "h100"), f"{UNIT}.flavour", "did you mean 'flavor'?"),
        (at(f"{UNIT}.gpus", 2), f"{UNIT}.gpus", "known here: afterExit, args, command"),
        (at("tenant", {}), "tenant", "did you mean 'tenants'?"),
        (at(f"{UNIT}.running", "no"), f"{UNIT}.running", "true or false, without quotes"),
        (at(f"{UNIT}.flavor", "a100"), f"{UNIT}.flavor", "'a100' is no flavor of this stack, which has h100, h100x8"),
        (at(f"{UNIT}.image", "pytorch/pytorch:latest"), f"{UNIT}.image", "reference by digest"),
        (at(f"{UNIT}.image", "tensorflow"), f"{UNIT}.image", "no image of gpu-runtime:images, which has bundle"),
        (at(f"{UNIT}.command", []), f"{UNIT}.args", "needs `command` beside it"),
        (at(f"{UNIT}.env", {"GPU_COUNT": "8"}), f"{UNIT}.env.GPU_COUNT", "set by the platform"),
        (at(f"{UNIT}.env", {"NVIDIA_VISIBLE_DEVICES": "all"}), f"{UNIT}.env.NVIDIA_VISIBLE_DEVICES", "what its flavor"),
        (at(f"{UNIT}.env", {"A-B": "x"}), f"{UNIT}.env.A-B", "variable name"),
        (at(f"{UNIT}.ports", [{"name": "ssh", "port": 2222}]), f"{UNIT}.ports", "sshd's own"),
        (at(f"{UNIT}.ports", [{"name": "a", "port": 1}, {"name": "a", "port": 2}]), f"{UNIT}.ports", "more than once"),
        (at(f"{UNIT}.ports", [{"name": "a", "port": 0}]), f"{UNIT}.ports.0.port", "greater than or equal to 1"),
        (at(f"{UNIT}.mounts", [{"storage": "nope", "path": "/data"}]), f"{UNIT}.mounts", "home, imagenet, scratch"),
        (at(f"{UNIT}.mounts", [{"storage": "scratch", "path": "/etc/x"}]), f"{UNIT}.mounts", "would hide /etc"),
        (at(f"{UNIT}.mounts", [{"storage": "scratch", "path": "/home/alice"}]), f"{UNIT}.mounts", "home directory"),
        (at(f"{UNIT}.mounts", [{"storage": "scratch", "path": "/a/../etc"}]), f"{UNIT}.mounts", "plain path"),
        (
            at(f"{UNIT}.mounts", [{"storage": "scratch", "path": "data"}]),
            f"{UNIT}.mounts.0.path",
            "absolute path such as /data",
        ),
        (at(f"{UNIT}.home", {"storage": "nope"}), f"{UNIT}.mounts", "'nope' is none of the tenant's storages"),
        (at(f"{UNIT}.runAs", {"uid": 0}), f"{UNIT}.runAs", "say `userNamespace: true` beside it"),
        (at(f"{UNIT}.runAs", {"gid": 0}), f"{UNIT}.runAs", "1000:0: a unit is root only in a user namespace"),
        (at(f"{UNIT}.runAs", {"uid": -1}), f"{UNIT}.runAs.uid", "greater than or equal to 0"),
        (at(f"{UNIT}.runAs", {"uid": 2000, "gid": 2000}), f"{UNIT}.runAs", "give both the same runAs"),
        (at(f"{UNIT}.ssh.mode", "root"), f"{UNIT}.ssh.mode", "'workload', 'image' or 'sidecar'"),
        (at(f"{UNIT}.domainSuffix", "evil.example"), f"{UNIT}.domainSuffix", "ssh.example.com, ssh.example.org"),
        (
            at("tenants.lab-a.units.Trainer", PROD["tenants"]["lab-a"]["units"]["notebook"]),
            "units.Trainer",
            "lower-case",
        ),
        (at(f"tenants.{'x' * 41}", {}), "x" * 41, "at most 40"),
        (at("tenants.a--b", {}), "a--b", "single '-'"),
        (at("tenants.lab-a.quota.gpus", 1), "tenants.lab-a.quota.gpus", "1 is less than the 9"),
        (at("tenants.lab-a.quota.storage", "1Ti"), "tenants.lab-a.quota.storage", "1Ti is less than"),
        (at("tenants.lab-a.storages.home.size", "lots"), "tenants.lab-a.storages.home.size", "such as 64Gi"),
        (at("egress.blockedCidrs", ["10.0.0.1/8"]), "egress.blockedCidrs.0", "host bits set"),
        (at("egress.blockedCidrs", ["0.0.0.0/0"]), "egress.blockedCidrs.0", "covers every address"),
        (at("egress.blockedCidrs", ["ten/8"]), "egress.blockedCidrs.0", "CIDR range such as"),
        (at("egress.blockedCidrs", ["::/0"]), "egress.blockedCidrs.0", "'::/0': covers every address"),
        (at("egress.blockedCidrs", ["::ffff:10.0.0.0/104"]), "egress.blockedCidrs.0", "write the IPv4 range itself"),
        (at("egress.blockedCidrs", ["0.0.0.0/1", "128.0.0.0/1"]), "egress.blockedCidrs", "every address of 0.0.0.0/0"),
        (at("egress.blockedCidrs", ["::/1", "8000::/1"]), "egress.blockedCidrs", "every address of ::/0"),
        (at(f"{LAB}.egress", {"blockedCidrs": ["0.0.0.0/1", "128.0.0.0/1"]}), f"{LAB}.egress.blockedCidrs", "every"),
        (
            at("egress.blockedCidrs", [f"10.0.{n % 250}.{n // 250}/32" for n in range(1001)]),
            "egress.blockedCidrs",
            "at most 1000 are allowed",
        ),
        (allowing("10.1.2.3/32", ports=[]), "egress.allow.0.ports", "at least one entry"),
        (allowing("10.1.2.3/32", reason=""), "egress.allow.0.reason", "at least 5 readable characters"),
        (allowing("10.1.2.3/32", reason="      "), "egress.allow.0.reason", "'      ': must say"),
        (allowing("10.1.2.3/32", reason="\u200b" * 9), "egress.allow.0.reason", "u200b': must say"),
        (allowing("10.120.3.4/32", ports=[10250, 9000]), "egress.allow.0.ports", "TCP 10250 of nodes"),
        (halves("10.1.2.0/24"), "egress.allow.0.cidr", "nothing of 10.1.2.0/24 is left"),
        (many_exceptions, "egress.allow", "exceptions; at most 15000 fit"),
        (at("egress.allow", [{"cidr": "10.1.2.3/32", "ports": [443]}]), "egress.allow.0.reason", "is missing"),
        (allowing("10.1.2.3/32", ports=[{"port": 53, "protocol": "SCTP"}]), "egress.allow.0.ports.0.protocol", "UDP"),
        (allowing("10.1.2.3/32", ports=["443-445"]), "egress.allow.0.ports.0", "a port number such as 443"),
        (allowing("10.1.2.3/8"), "egress.allow.0.cidr", "host bits set"),
        (allowing("0.0.0.0/0"), "egress.allow.0.cidr", "covers every address"),
        (allowing("169.254.169.254/32"), "egress.allow.0.cidr", "which no reason opens"),
        (allowing("100.100.100.200/32"), "egress.allow.0.cidr", "Alibaba Cloud"),
        (allowing("127.0.0.1/32"), "egress.allow.0.cidr", "loopback"),
        (allowing("fe80::1/128"), "egress.allow.0.cidr", "link-local"),
        (allowing("64:ff9b::a00:1/128"), "egress.allow.0.cidr", "NAT64"),
        (allowing("10.129.0.0/16"), "egress.allow.0.cidr", "cluster.podCidrs"),
        (allowing("10.132.0.1/32"), "egress.allow.0.cidr", "cluster.serviceCidrs"),
        (allowing("198.18.7.10/32"), "egress.allow.0.cidr", "cluster.apiServerCidrs"),
        (allowing("10.0.0.0/8"), "egress.allow.0.cidr", "is in egress.blockedCidrs as well"),
        (at(f"{LAB}.egress.allow", [{**HOLE, "cidr": "127.0.0.1/32"}]), f"{LAB}.egress.allow.0.cidr", "loopback"),
        (ports_of_tenant([443], [443, 8443]), f"{LAB}.egress.internetPorts", "TCP 8443: the stack opens TCP 443"),
        (at("egress.internetPorts", [0]), "egress.internetPorts.0.port", "greater than or equal to 1"),
        (elsewhere("frps"), "platform.ssh.server.address", "private name: a policy opens addresses"),
        (elsewhere("frps.corp.internal"), "platform.ssh.server.address", "IP address"),
        (elsewhere("169.254.169.254"), "platform.ssh.server.address", "which no reason opens"),
        (elsewhere("ssh.example.com", egress={"internetPorts": [443]}), "egress.internetPorts", "add 7000"),
        (elsewhere("FRPS.Internal"), "platform.ssh.server.address", "'FRPS.Internal': is a private name"),
        (elsewhere("frps.svc.cluster.local."), "platform.ssh.server.address", "cluster.local.': is a private name"),
        (elsewhere("10.1.2.3.4"), "platform.ssh.server.address", "'10.1.2.3.4': must be an IP address"),
        (elsewhere("127.1"), "platform.ssh.server.address", "'127.1': must be an IP address"),
        (elsewhere("1.2.3.4/32"), "platform.ssh.server.address", "public host name such as"),
        (elsewhere("a b.c"), "platform.ssh.server.address", "'a b.c': must be"),
        (elsewhere("::ffff:10.0.0.1"), "platform.ssh.server.address", "IPv4 as such"),
        (elsewhere("2a00::1%eth0"), "platform.ssh.server.address", "without a zone"),
        (elsewhere("10.132.0.1"), "platform.ssh.server.address", "cluster.serviceCidrs"),
        (elsewhere("10.0.0.9", token=None), "serverToken", "is missing: units log in with it at 10.0.0.9"),
        (elsewhere("10.0.0.9", token="short"), "serverToken", "16 to 512 printable characters"),
        (elsewhere("10.0.0.9", token="with blanks, though long enough"), "serverToken", "without blanks"),
        (elsewhere("10.0.0.9", ca="x"), "platform.ssh.server.ca", "in PEM"),
        (at("cluster.apiServerCidrs", []), "cluster.apiServerCidrs", "is missing: the gate asks the API server"),
        (at("cluster.apiServerCidrs", ["127.0.0.1/32"]), "cluster.apiServerCidrs.0", "which no policy opens for the"),
        (at("cluster.apiServerPorts", []), "cluster.apiServerPorts", "at least"),
        (at("cluster.apiServerPorts", [0]), "cluster.apiServerPorts.0", "greater than or equal to 1"),
        (at("serverToken", SECRET), "serverToken", "there is no gpu-runtime:platform.ssh.server"),
        (at(f"{LAB}.internal", "yes"), f"{LAB}.internal", "true or false"),
        (
            at("platform.ssh.service", {"type": "ClusterIP", "nodePort": 31337}),
            "platform.ssh.service.nodePort",
            "31337: a ClusterIP has none",
        ),
        (
            at("platform.ssh.service", {"type": "NodePort", "internal": True}),
            "platform.ssh.service",
            "internal: true is for a load balancer, and the type is NodePort",
        ),
        (
            at("platform.ssh.limits", {"bandwidth": "100"}),
            "platform.ssh.limits.bandwidth",
            "whole number of MB a second",
        ),
        (
            at("platform.ssh.limits", {"bandwidth": "0MB"}),
            "platform.ssh.limits.bandwidth",
            "1MB to 99999MB",
        ),
        (at("platform.ssh.service.internal", "yes"), "platform.ssh.service.internal", "true or false"),
        (at("cluster.dns.addresses", ["kube-dns"]), "cluster.dns.addresses.0", "IP address such as"),
        (at("cluster.dns.addresses", ["::ffff:10.0.0.1"]), "cluster.dns.addresses.0", "IPv4 as such"),
        (at("cluster.dns.addresses", ["169.254.169.254"]), "cluster.dns.addresses.0", "metadata service"),
        (at("cluster.dns.addresses", ["127.0.0.1"]), "cluster.dns.addresses.0", "loopback"),
        (at("cluster.dns.addresses", ["64:ff9b::a00:1"]), "cluster.dns.addresses.0", "NAT64"),
        (at("cluster.dns.addresses", ["198.18.7.10"]), "cluster.dns.addresses.0", "cluster.apiServerCidrs"),
        (at("cluster.dns.namespace", "gpu-lab-a"), "cluster.dns.namespace", "is a tenant's"),
        (at("cluster.dns.namespace", "Kube System"), "cluster.dns.namespace", "a namespace such as"),
        (at("cluster.dns.selector", {"k8s-app": "x y"}), "cluster.dns.selector.k8s-app", "a label's value"),
        (at("cluster.dns.selector", {"a b": "x"}), "cluster.dns.selector.a b", "a label's key"),
        (
            at("cluster.podCidrs", [f"10.1.{n}.0/24" for n in range(251)]),
            "cluster.podCidrs",
            "has 251 entries; at most 250",
        ),
        (at("egress.blockedCidrs", ["10.0.0.0/255.0.0.0"]), "egress.blockedCidrs.0", "10.0.0.0/255.0.0.0': must be a"),
        (at("egress.blockedCidrs", ["fe80::%eth0/64"]), "egress.blockedCidrs.0", "eth0/64': must be a CIDR"),
        (at("cluster.dns.ports", []), "cluster.dns.ports", "at least one entry"),
        (at("cluster.dns.selector", {}), "cluster.dns.selector", "at least"),
        (at("images.gate", "registry.example.com/gate:1"), "images.gate", "by digest"),
        (lambda config: config["images"].pop("gate"), "images", "lacks gate"),
        (at("platform.ssh.kind", "telnet"), "platform.ssh.kind", "'frp'"),
        (without("cluster"), "cluster", "is missing"),
        (without("secret"), "secret", "is missing"),
        (at("secret", "short"), "secret", "openssl rand -hex 32"),
    ],
)
def test_a_mistake_is_refused_with_path_and_advice(change: Any, path: str, advice: str) -> None:
    """The refusal names where the mistake is and what would be right."""
    said = refused(change)

    assert f"gpu-runtime:{path}" in said or path in said
    assert advice in said


def test_all_mistakes_are_told_at_once() -> None:
    """A typo in one unit does not hide an unknown flavor of another, a bad range and a missing secret."""

    def several(config: dict[str, Any]) -> None:
        config["tenants"]["lab-a"]["units"]["trainer"] |= {"flavour": "h100", "flavor": "a200"}
        config["tenants"]["lab-b"]["units"]["eval"]["flavor"] = "a100"
        config["egress"]["blockedCidrs"] = ["10.0.0.1/8"]
        del config["secret"]

    said = refused(several)

    assert "5 problems" in said
    for part in (
        "trainer.flavour",
        "'a200' is no flavor",
        "eval.flavor",
        "blockedCidrs.0",
        "gpu-runtime:secret: is missing",
    ):
        assert part in said


def test_a_read_write_once_storage_is_mounted_by_one_unit() -> None:
    """A second unit on a volume that one node mounts is refused, reading or not."""
    mount = {"storage": "scratch", "path": "/scratch", "readOnly": True}
    said = refused(lambda config: config["tenants"]["lab-a"]["units"]["notebook"]["mounts"].append(mount))

    assert "tenants.lab-a.storages.scratch: is ReadWriteOnce, but units trainer, notebook mount it" in said


def test_two_units_never_share_a_host() -> None:
    """The name under which a unit is reached is its own."""

    def same(config: dict[str, Any]) -> None:
        config["tenants"]["lab-a"]["units"]["notebook"] |= {"host": "trainer", "domainSuffix": "ssh.example.com"}

    assert "notebook, trainer all want the host trainer.gpu-lab-a.ssh.example.com" in refused(same)


@pytest.mark.parametrize("tenant", ["kube-system", "default", "gpu-runtime", "gpu-runtime-access", "openshift-x"])
def test_reserved_namespaces_are_refused(tenant: str) -> None:
    """No tenant takes a namespace of Kubernetes or of the platform."""
    said = refused(lambda config: config.update({"namespacePrefix": "", "tenants": {tenant: {}}}))

    assert f"namespace {tenant!r} is reserved" in said


def test_a_secret_in_clear_text_is_refused_and_not_shown() -> None:
    """A stack file that holds the secret readably is refused; the refusal does not repeat it."""
    said = refused(lambda _config: None, encrypted=set())

    assert "secret: is stored in clear text" in said
    assert SECRET not in said


def test_a_bad_secret_is_never_shown() -> None:
    """No refusal repeats the value of a secret or of a variable, which may be one."""
    said = refused(lambda config: config.update(secret=["hunter2"], previousSecret=4711))

    assert "hunter2" not in said
    assert "4711" not in said


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_stack_files_here_are_accepted(file: Any) -> None:
    """Every stack file of the repository is a real example."""
    assert isinstance(parse(raw(file), ENCRYPTED), StackConfig)


def test_keys_are_kept_as_ssh_wants_them() -> None:
    """A key survives as type, base64 and comment, whatever the white space around it."""
    changed = copy.deepcopy(PROD)
    at(f"{UNIT}.ssh.authorizedKeys", [f"  {KEY.replace(' alice', '   alice')} "])(changed)
    unit = parse(changed, ENCRYPTED).tenants["lab-a"].units["trainer"]

    assert unit.ssh is not None
    assert unit.ssh.authorized_keys == (KEY,)


def test_images_of_the_catalogue_go_by_name() -> None:
    """A unit may say a catalogue name in place of a digest reference, and a digest reference as well."""
    changed = copy.deepcopy(PROD)
    at(f"{UNIT}.image", image("python"))(changed)

    assert parse(changed, ENCRYPTED).tenants["lab-a"].units["trainer"].image == image("python")
