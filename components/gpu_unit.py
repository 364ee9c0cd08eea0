"""A GPU unit: one workspace that runs a user's image and is reached by SSH."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pulumi

from components import names, walls
from components.arrival import MADE_AT_ONCE, Arriving, note_changes
from components.bundle import Bundle
from components.flavor import Flavor
from components.flows import OWN_TUNNEL, Flow, Tunnel, unit_flows
from components.keys_now import told_by
from components.kube import SKIP_AWAIT, metadata, register
from components.landing import keys_data
from components.model import Manifest
from components.placement import claim_template, claims, placement
from components.restart import guard_template
from components.survey import Place
from components.unit_parts import UnitPod, VolumeMount
from components.unit_pod import pod_template
from components.unit_spec import UnitSpec, seconds
from components.user_ca import UserCaSpec, login_files


@dataclass(frozen=True)
class Unit:
    """A unit with everything around it resolved."""

    name: str
    tenant: str
    namespace: str
    owner: str
    spec: UnitSpec
    flavor: Flavor
    image: str
    bundle: Bundle
    tunnel_image: str
    host: str
    connect: tuple[str, int] = ("localhost", names.CONNECT_PORT)
    tunnel: Tunnel | None = OWN_TUNNEL
    """Where it announces its host; None: a server on the internet, which has a row of its own."""
    remote_forwarding: bool = False
    """Whether clients may forward ports of theirs to the unit (ssh -R)."""
    user_ca: UserCaSpec | None = None
    """What its `ssh` has where it names no CA of its own."""

    @property
    def alias(self) -> str:
        """Give ``<unit>.<tenant>``, the name people use."""
        return f"{self.name}.{self.tenant}"

    @property
    def labels(self) -> names.Labels:
        """Give the labels of all objects of the unit."""
        flavor = {names.FLAVOR_LABEL: self.spec.flavor}
        return names.labels(owner=self.owner, component="unit", instance=self.name, tenant=self.tenant) | flavor


@dataclass(frozen=True)
class UnitSecrets:
    """What only two containers of a unit may read; the values are secrets to the engine, too."""

    host_key: pulumi.Input[str] = field(repr=False)
    tunnel: dict[str, pulumi.Input[str]] = field(repr=False)
    """File name to content of the tunnel client's directory: tunnel.json, ca.crt, token, capability."""


def unit_manifests(unit: Unit, secrets: UnitSecrets) -> dict[str, Manifest]:
    """Build the objects of a unit."""
    made = _login(unit, secrets) if unit.spec.ssh else {}
    made |= {**_walls(unit), "deployment": _deployment(unit), "budget": _budget(unit)}
    if unit.spec.ports or unit.spec.ssh:
        made["service"] = _service(unit)
    if unit.flavor.claim:
        made["claim"] = claim_template(unit.name, unit.namespace, unit.labels, unit.flavor.claim)
    return made


def _login(unit: Unit, secrets: UnitSecrets) -> dict[str, Manifest]:
    """Build what the pod mounts; first, so that it is there when the kubelet looks."""
    ssh = unit.spec.ssh
    login = login_files(ssh.authorized_keys, ssh.user_ca or unit.user_ca, unit.host) if ssh else {}
    keys = keys_data(login, remote_forwarding=unit.remote_forwarding)
    return {
        "keys": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(unit, names.unit_keys), "data": keys},
        "host-key": _secret(unit, names.unit_host_key, {"ssh_host_ed25519_key": secrets.host_key}),
        "tunnel": _secret(unit, names.unit_tunnel, secrets.tunnel),
    }


def _meta(unit: Unit, name: Callable[[str], str] = names.unit, annotations: dict[str, str] | None = None) -> Manifest:
    return metadata(name(unit.name), unit.namespace, unit.labels, annotations)


def _secret(unit: Unit, name: Callable[[str], str], files: dict[str, pulumi.Input[str]]) -> Manifest:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": _meta(unit, name), "type": "Opaque", "stringData": files}


def _selector(unit: Unit) -> names.Labels:
    return names.selector("unit", unit.name)


def _deployment(unit: Unit) -> Manifest:
    """One replica, replaced never by two at once: the GPU and the volume fit one pod."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _meta(unit, annotations=MADE_AT_ONCE),
        "spec": {
            "replicas": 1 if unit.spec.running else 0,
            "revisionHistoryLimit": 2,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _selector(unit)},
            "template": unit_template(unit),
        },
    }


def unit_template(unit: Unit) -> Manifest:
    """Build the pod template of *unit* (see unit_pod: it is sacred)."""
    spec, flavor = unit.spec, unit.flavor
    template = pod_template(
        UnitPod(
            name=unit.name,
            labels=unit.labels,
            image=unit.image,
            bundle=unit.bundle,
            tunnel_image=unit.tunnel_image,
            command=spec.command,
            args=spec.args,
            env=tuple(sorted(spec.env.items())),
            secret_env=tuple((name, at.secret, at.key) for name, at in sorted(spec.secret_env.items())),
            ports=tuple((port.name, port.port) for port in spec.ports),
            mounts=tuple(VolumeMount(names.claim(m.storage), m.path, m.read_only) for m in spec.mounts),
            home_claim=names.claim(spec.home.storage) if spec.home else None,
            run_as=spec.run_as,
            resources=flavor.resources,
            gpus=tuple(flavor.extended.items()),
            devices=flavor.devices,
            claims=claims(flavor),
            probes=spec.probes.manifest,
            grace=seconds(spec.grace),
            ephemeral=flavor.ephemeral,
            username=spec.ssh.username if spec.ssh else None,
            mode=spec.mode,
            home=spec.home_dir,
            hold=spec.hold,
        )
    )
    template["spec"].update(placement(unit.name, spec, flavor))
    return template


def _service(unit: Unit) -> Manifest:
    """Say that the unit exists, and under which host: the gate admits no other; its name leads to the pod itself.

    One that is stopped says no host, so that it takes no new session while its pod has its grace.
    Headless with and without ports: an API server takes no address from a Service and gives it none later, so that a
    unit could not get or lose its ports.
    """
    ports = [{"name": p.name, "port": p.port, "targetPort": p.port, "protocol": "TCP"} for p in unit.spec.ports]
    told = unit.spec.told | ({names.HOST_ANNOTATION: unit.host} if unit.spec.ssh and unit.spec.running else {})
    more = {"ports": ports} if ports else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(unit, annotations={**SKIP_AWAIT, **told}),
        "spec": {"type": "ClusterIP", "clusterIP": "None", "selector": _selector(unit), **more},
    }


def _budget(unit: Unit) -> Manifest:
    """Let a drain end a unit only where its owner said so; a pod that is broken anyway never blocks one."""
    spec = {
        "maxUnavailable": 0 if unit.spec.disruption == "block" else 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": _selector(unit)},
    }
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _meta(unit),
        "spec": spec,
    }


def rows_of_unit(unit: Unit) -> list[Flow]:
    """Give the unit's rows of the table of flows."""
    exposed = [port.port for port in unit.spec.ports if port.expose == "tenant"]
    tunnel, shown = unit.tunnel if unit.spec.ssh else None, [port.port for port in unit.spec.web]
    return unit_flows(unit.namespace, unit.name, tunnel, exposed, shown)


def _walls(unit: Unit) -> dict[str, Manifest]:
    made = walls.policies(unit.namespace, unit.labels, rows_of_unit(unit))
    return {f"walls{name.removeprefix(names.unit(unit.name))}": policy for name, policy in made.items()}


class GPUUnit(pulumi.ComponentResource):
    """A workspace with its SSH entrance; depends on its Tenant (walls before pods) and on what fills its storages."""

    host: str
    access_url: str | None
    arriving: Arriving
    """What `up` waits for, see arrival."""

    def __init__(
        self,
        unit: Unit,
        secrets: UnitSecrets,
        opts: pulumi.ResourceOptions | None = None,
        keys_hook: pulumi.ResourceHook | None = None,
        registered: Mapping[str, pulumi.Resource] | None = None,
    ) -> None:
        """Make the unit.

        *keys_hook* (see keys_now) makes new keys take effect at once, its own as well; *registered* are objects of it,
        by role, that were made before it (see credentials).
        """
        super().__init__(names.component_type("GPUUnit"), unit.alias, {"namespace": unit.namespace}, opts)
        wait = unit.spec.timeout
        guarded = pulumi.ResourceOptions(
            hooks=pulumi.ResourceHookBinding(
                before_update=[guard_template()], after_create=[note_changes()], after_update=[note_changes()]
            ),
            custom_timeouts=pulumi.CustomTimeouts(create=wait, update=wait, delete=wait),
        )
        told = told_by(keys_hook, "keys", "host-key", "tunnel")
        deployment = self._register(unit, secrets, told, guarded, registered or {})
        place = Place(unit.namespace, unit.name)
        self.arriving = Arriving(unit.alias, place, seconds(wait), unit.spec.must_run, self, deployment)
        self.host = unit.host
        self.access_url = access_url(unit)
        self.register_outputs({"host": self.host, "access_url": self.access_url})

    def _register(
        self,
        unit: Unit,
        secrets: UnitSecrets,
        options: dict[str, pulumi.ResourceOptions],
        guarded: pulumi.ResourceOptions,
        registered: Mapping[str, pulumi.Resource],
    ) -> pulumi.CustomResource:
        """Register the Deployment last, when all that its pod mounts is there; it goes first, while its walls stand."""
        manifests = {role: made for role, made in unit_manifests(unit, secrets).items() if role not in registered}
        deployment = {"deployment": manifests.pop("deployment")}
        beside = [*register(unit.alias, manifests, parent=self, options=options).values(), *registered.values()]
        return register(unit.alias, deployment, parent=self, after=beside, options={"deployment": guarded})[
            "deployment"
        ]


def access_url(unit: Unit) -> str | None:
    """Give the address of the unit's first port within the cluster, or None without ports."""
    if not unit.spec.ports:
        return None
    service = names.service_host(names.unit(unit.name), unit.namespace)
    return f"http://{service}.cluster.local:{unit.spec.ports[0].port}"
