"""The secrets of a stack, each derived for the part that needs it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pulumi

from components import derive, gate
from components.access import Access, AccessSecrets, htpasswd
from components.gpu_unit import Unit, UnitSecrets
from components.oidc_files import oidc_files
from components.proxy import Proxy, ProxySecrets, hosts
from components.proxy_spec import DerivedTls
from components.ssh_client import Access as Login
from components.tunnel import SERVER_NAME, TunnelSecrets
from components.tunnel_server import ServerSpec
from components.unit_tunnel import ssh_access, tunnel_json
from stacks.resolve import Stack


@dataclass(frozen=True)
class Keys:
    """Every secret of a stack, derived on demand; each value is a secret to the engine."""

    stack: Stack

    @property
    def _secret(self) -> str:
        return self.stack.config.secret.get_secret_value()

    @property
    def _epoch(self) -> int:
        return self.stack.config.epoch

    @cached_property
    def _authority(self) -> derive.Authority:
        return derive.Authority(self._secret, self._epoch, self.stack.owner)

    @cached_property
    def _certificate(self) -> str:
        return self._authority.certificate

    @cached_property
    def _trusted(self) -> str:
        """Give the authorities that are believed: while a secret is rotated, that of the previous one as well."""
        previous = self.stack.config.previous_secret
        older = derive.Authority(previous.get_secret_value(), self._epoch, self.stack.owner) if previous else None
        return self._certificate + (older.certificate if older else "")

    @cached_property
    def _stack_key(self) -> bytes:
        handed = self.stack.config.platform_keys
        return bytes.fromhex(handed.key.get_secret_value()) if handed else self._key_of(self.stack.owner)

    def _key_of(self, owner: str) -> bytes:
        return derive.stack_key(derive.gate_key(self._secret, self._epoch), owner)

    @cached_property
    def _token(self) -> str:
        return derive.frp_token(self._secret, self._epoch)

    @property
    def _elsewhere(self) -> ServerSpec | None:
        return self.stack.config.ssh.server

    @property
    def _server_name(self) -> str:
        return self._elsewhere.name if self._elsewhere else SERVER_NAME

    @property
    def _server_authority(self) -> str:
        handed = self.stack.config.platform_stack
        return self._elsewhere.ca if self._elsewhere else handed.ca if handed else self._trusted

    @property
    def _server_token(self) -> str:
        config = self.stack.config
        given = config.platform_keys.token if config.platform_keys else config.server_token
        return given.get_secret_value() if given else self._token

    def handed_over(self) -> dict[str, Any]:
        """Give the public output that admitted stacks read (schema.HandedOver)."""
        ssh = self.stack.config.ssh.model_dump(
            mode="json",
            by_alias=True,
            exclude={"server": True, "service": {"annotations", "internal", "source_ranges"}},
        )
        shown = self.stack.proxy
        said = {"oidc": True} if shown and shown.spec.oidc else {}
        browser = {"host": shown.spec.host, "port": shown.spec.port, **said} if shown else None
        return {"owner": self.stack.owner, "ssh": ssh, "ca": self._trusted, "browser": browser}

    @property
    def browser_authority(self) -> str | None:
        """Give who signed the proxy's certificate, for clients to trust; None where it is somebody else's."""
        proxy = self.stack.proxy
        return self._trusted if proxy and isinstance(proxy.spec.tls, DerivedTls) else None

    def admitted(self) -> dict[str, pulumi.Output[dict[str, str]]]:
        """Give by owner what only that admitted stack may know (schema.PlatformKeys)."""
        owners = self.stack.tunnel.admits if self.stack.tunnel else ()
        return {
            owner: pulumi.Output.secret({"key": self._key_of(owner).hex(), "token": self._token}) for owner in owners
        }

    def tunnel(self) -> TunnelSecrets:
        """Give the files of the tunnel tier."""
        certificate, key = self._authority.server(SERVER_NAME)
        own = {"tls.crt": certificate, "tls.key": key, "token": self._token}
        frps = {**own, "ca.crt": self._trusted}
        gate_certificate, gate_private = self._authority.server(gate.HOST)
        limit = self.stack.config.ssh.limits.bandwidth or "none"
        asked = {"tls.crt": gate_certificate, "tls.key": gate_private, "key": self._gate_keys(), "bandwidth": limit}
        return TunnelSecrets(
            _sealed(frps),
            _sealed(asked),
            derive.fingerprint(*own.values(), self._certificate),
            derive.fingerprint(gate_certificate),
        )

    def proxy(self, proxy: Proxy) -> ProxySecrets:
        """Give the certificate of *proxy*, none where it comes from elsewhere, and what an issuer knows it by."""
        given = self.stack.config.oidc_client_secret
        own = (derive.session_key(self._secret, self._epoch), derive.callback_key(self._secret, self._epoch))
        oidc = oidc_files(given.get_secret_value(), *own) if proxy.spec.oidc and given else {}
        if not isinstance(proxy.spec.tls, DerivedTls):
            return ProxySecrets({}, _sealed(oidc))
        certificate, key = self._authority.server(*hosts(proxy.spec))
        return ProxySecrets(_sealed({"tls.crt": certificate, "tls.key": key}), _sealed(oidc))

    def _gate_keys(self) -> str:
        """List the gate's keys, newest first: while a secret is rotated, capabilities of both are good."""
        previous = self.stack.config.previous_secret
        secrets = [self._secret, *([previous.get_secret_value()] if previous else [])]
        return "".join(f"{derive.gate_key(secret, self._epoch)}\n" for secret in secrets)

    def host_key(self, unit: Unit) -> derive.HostKey:
        """Give the SSH host key of *unit*."""
        return derive.host_key(self._secret, self._epoch, unit.namespace, unit.name)

    def unit(self, unit: Unit, host_key: derive.HostKey) -> UnitSecrets:
        """Give the files of the two Secrets of *unit*."""
        files = {
            "tunnel.json": tunnel_json(
                unit, self.stack.servers, self._server_name, tcp_mux=self.stack.config.ssh.tcp_mux
            ),
            "ca.crt": self._server_authority,
            "token": self._server_token,
            "capability": derive.capability(self._stack_key, unit.namespace, unit.name, unit.host),
        }
        return UnitSecrets(pulumi.Output.secret(host_key.private), _sealed(files))

    def password(self, access: Access, user: str) -> str:
        """Give what *user* signs in with; while a secret is rotated, that of the new one: nobody has two at once."""
        return derive.web_password(self._secret, self._epoch, access.namespace, user, access.epoch)

    def passwords(self, access: Access) -> AccessSecrets:
        """Give what the proxy compares passwords with."""
        lines = htpasswd((user, self.password(access, user)) for user in access.users)
        return AccessSecrets(pulumi.Output.secret(lines))

    def access(self, unit: Unit) -> Login | None:
        """Say how clients reach *unit*; None without SSH."""
        return ssh_access(unit, self.host_key(unit).public)


def _sealed(files: Mapping[str, str]) -> dict[str, pulumi.Input[str]]:
    return {name: pulumi.Output.secret(content) for name, content in files.items()}
