"""The Secret of a proxy with an issuer, as files."""

import json

from components import proxy_callback

OIDC_DIR = "/oidc"
CLIENT_SECRET, SESSION_KEY = "client", "session"
"""Names of Envoy's two secrets, each in a file of its own: it takes one of a file."""


def oidc_files(client_secret: str, session_key: str, callback_key: str) -> dict[str, str]:
    """Write the files, which are read again when their folder's content is moved."""
    said = {CLIENT_SECRET: client_secret, SESSION_KEY: session_key}
    envoys = {f"{name}.json": _secret_file(name, value) for name, value in said.items()}
    return {**envoys, proxy_callback.KEY: callback_key}


def _secret_file(name: str, value: str) -> str:
    kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
    secret = {"@type": kind, "name": name, "generic_secret": {"secret": {"inline_string": value}}}
    return json.dumps({"resources": [secret]}) + "\n"
