"""How who has no password signs in at an issuer: Envoy's own filters oauth2, jwt_authn and rbac, one after another.

    callback -> rules -> a unit's own token aside -> parts of the session joined -> oauth2
    -> password, where one is said -> ID token -> claims -> our cookies removed -> the token put back

Who says a password is asked for a right one; who says none needs a session. The last word has `rbac`: a password that
was right, or claims that the tenant admits; a virtual host that says nothing admits no claims.
"""

from dataclasses import dataclass

from components import proxy_callback
from components import proxy_oidc_rules as programs
from components.envoy import Config, lua, typed, watched
from components.oidc_files import CLIENT_SECRET, OIDC_DIR, SESSION_KEY
from components.oidc_spec import OidcSpec, server_of
from components.proxy_oidc_rules import CALLBACK, SIGN_OUT
from components.proxy_rules import COOKIES
from components.proxy_spec import url

CLAIMS_RULE = "envoy.filters.http.rbac"
"""A virtual host says under this name which claims it admits (RBACPerRoute)."""

PASSWORD_POLICY = {
    "permissions": [{"any": True}],
    "principals": [
        {
            "sourced_metadata": {
                "metadata_matcher": {
                    "filter": "envoy.filters.http.basic_auth",
                    "path": [{"key": "username"}],
                    "value": {"present_match": True},
                }
            }
        }
    ],
}
"""Who said a right password; services/routes says the same beside a tenant's claims."""

ID_TOKEN_HEADER = "x-gpu-runtime-id-token"  # noqa: S105 - a name
"""From one filter to the next; a client's own is dropped."""

CLAIMED_USER_HEADER = "x-forwarded-claimed-user"
"""What the ID token calls the user, apart from the header of passwords; a client's own is dropped."""

ASIDE_HEADER = "x-gpu-runtime-authorization"
"""What a request says to a unit's own program, from one filter to the last; a client's own is dropped."""

ISSUER_SECONDS = "10s"
"""For the issuer's servers to answer."""

LOGIN_SECONDS = "600s"
"""From the first redirect to the callback: a password, and a second factor."""

SESSION_SECONDS = "3600s"
"""Where the issuer does not say how long what it gives is good."""

KEYS_SECONDS = "300s"
"""Between two looks at the issuer's keys: one that it withdrew is believed as long at most."""

COOKIE_PARTS = (
    "bearer_token",
    "oauth_hmac",
    "oauth_expires",
    "id_token",
    "refresh_token",
    "oauth_nonce",
    "code_verifier",
)
"""What Envoy names each of its cookies by."""


@dataclass(frozen=True)
class Oidc:
    """An issuer, and the proxy as it knows it."""

    spec: OidcSpec
    host: str
    """The main host."""
    port: int
    folder: str = OIDC_DIR
    """Where the secrets lie."""

    @property
    def redirect_uri(self) -> str:
        """Give the one address that the issuer is told to come back to, whatever origin was asked."""
        return f"{url(self.host, self.port)}{CALLBACK}"


def callback_filter(oidc: Oidc) -> Config:
    """Give the first filter: the issuer comes back to the main host, and is led on to the origin that was asked.

    It has the code sealed for that origin, and unsealed there.
    """
    return lua("gpu-runtime.callback", programs.callback_rules(oidc.host, proxy_callback.CALLBACK))


def aside() -> Config:
    """Give the filter behind the rules: to the next ones an Authorization that is no password would be a wrong one."""
    return lua("gpu-runtime.aside", programs.aside_rules(ASIDE_HEADER))


def parts() -> Config:
    """Give the filter around that of sessions: a browser would not keep a long ID token in one cookie."""
    return lua("gpu-runtime.parts", programs.part_rules())


def put_back() -> Config:
    """Give the filter behind all that judge: the unit's program gets what was set aside for it."""
    return lua("gpu-runtime.put-back", programs.put_back_rules(ASIDE_HEADER))


def judges(oidc: Oidc) -> list[Config]:
    """Give the filters behind that of passwords."""
    return [_jwt(oidc), _rbac(), lua("gpu-runtime.cookies", programs.cookie_rules())]


def clusters(oidc: Oidc) -> list[Config]:
    """Give a cluster for each server that Envoy asks itself."""
    return [_cluster(host, port, oidc.spec.ca) for host, port in oidc.spec.servers]


def _cluster_name(url: str) -> str:
    host, port = server_of(url)
    return f"issuer/{host}:{port}"


def _cluster(host: str, port: int, ca: str) -> Config:
    name = f"issuer/{host}:{port}"
    endpoint = {"endpoint": {"address": {"socket_address": {"address": host, "port_value": port}}}}
    alternative = {"san_type": "IP_ADDRESS" if _is_address(host) else "DNS", "matcher": {"exact": host}}
    validated = {"trusted_ca": {"inline_string": ca}, "match_typed_subject_alt_names": [alternative]}
    common = {
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
        "validation_context": validated,
        "alpn_protocols": ["http/1.1"],
    }
    kind = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
    return {
        "name": name,
        "type": "STRICT_DNS",
        "connect_timeout": "5s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
        "transport_socket": typed("envoy.transport_sockets.tls", kind, sni=host, common_tls_context=common),
    }


def _is_address(host: str) -> bool:
    return host.rpartition(".")[2].isdecimal()


def _http_uri(url: str) -> Config:
    return {"uri": url, "cluster": _cluster_name(url), "timeout": ISSUER_SECONDS}


def sign_in(oidc: Oidc) -> Config:
    """Lead a browser's navigation to the issuer, and anything else without a session to a 401.

    A password passes this filter by. Of what the issuer gives the ID token alone is kept, encrypted, in a cookie of the
    origin, which a signature over the origin's host binds to it.
    """
    spec = oidc.spec
    config = {
        "token_endpoint": _http_uri(spec.token_endpoint),
        "authorization_endpoint": spec.authorization_endpoint,
        **({"end_session_endpoint": spec.end_session_endpoint} if spec.end_session_endpoint else {}),
        "redirect_uri": oidc.redirect_uri,
        "redirect_path_matcher": {"path": {"exact": CALLBACK}},
        "signout_path": {"path": {"exact": SIGN_OUT}},
        "allowed_redirect_domains": [oidc.host, f"*.{oidc.host}"],
        "credentials": _credentials(oidc),
        "cookie_configs": _lax(),
        "auth_scopes": list(dict.fromkeys(("openid", *spec.scopes))),
        "forward_id_token": {"header": ID_TOKEN_HEADER},
        "disable_access_token_set_cookie": True,
        "disable_refresh_token_set_cookie": True,
        "use_refresh_token": False,
        "default_expires_in": SESSION_SECONDS,
        "csrf_token_expires_in": LOGIN_SECONDS,
        "code_verifier_token_expires_in": LOGIN_SECONDS,
        "pass_through_matcher": [{"name": "authorization", "string_match": {"prefix": "Basic ", "ignore_case": True}}],
        "deny_redirect_matcher": [_no_navigation()],
    }
    return typed("envoy.filters.http.oauth2", "envoy.extensions.filters.http.oauth2.v3.OAuth2", config=config)


def _credentials(oidc: Oidc) -> Config:
    return {
        "client_id": oidc.spec.client_id,
        "token_secret": _sds(oidc, CLIENT_SECRET),
        "hmac_secret": _sds(oidc, SESSION_KEY),
        "cookie_names": {part: f"{COOKIES}{part.replace('_', '-')}" for part in COOKIE_PARTS},
    }


def _sds(oidc: Oidc, name: str) -> Config:
    return {"name": name, "sds_config": watched(oidc.folder, f"{name}.json")}


def _lax() -> Config:
    """Send no cookie of ours with what another site's page asks, but for a navigation: the issuer's is one."""
    return {f"{part}_cookie_config": {"same_site": "LAX"} for part in COOKIE_PARTS}


def _no_navigation() -> Config:
    """Match what no person would see being led away: programs, scripts of a page, its pictures, sockets."""
    exact = {"exact": "document"}
    return {
        "name": "sec-fetch-dest",
        "string_match": exact,
        "invert_match": True,
        "treat_missing_header_as_empty": True,
    }


def _jwt(oidc: Oidc) -> Config:
    """Believe an ID token by the issuer's keys, for this client, while it is good; none at all is judged later."""
    spec = oidc.spec
    fetched = {"fast_listener": True, "failed_refetch_duration": "2s"}
    provider = {
        "issuer": spec.issuer,
        "audiences": [spec.client_id],
        "require_expiration": True,
        "remote_jwks": {
            "http_uri": _http_uri(spec.jwks_uri),
            "cache_duration": KEYS_SECONDS,
            "async_fetch": fetched,
        },
        "from_headers": [{"name": ID_TOKEN_HEADER}],
        "payload_in_metadata": "claims",
        "claim_to_headers": [{"header_name": CLAIMED_USER_HEADER, "claim_name": spec.user_claim}],
    }
    wanted = {"requires_any": {"requirements": [{"provider_name": "issuer"}, {"allow_missing": {}}]}}
    return typed(
        "envoy.filters.http.jwt_authn",
        "envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
        providers={"issuer": provider},
        rules=[{"match": {"prefix": "/"}, "requires": wanted}],
        strip_failure_response=True,
    )


def _rbac() -> Config:
    rules = {"action": "ALLOW", "policies": {"password": PASSWORD_POLICY}}
    return typed(CLAIMS_RULE, "envoy.extensions.filters.http.rbac.v3.RBAC", rules=rules)
