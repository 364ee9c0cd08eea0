import copy
import json
from typing import Any

import pytest
from gate.claim import RefusedError
from gate.rules import Policy, judge
from hypothesis import given
from hypothesis import strategies as st

from tests.services.test_view import a_view
from tests.services.world import GATE_KEY, OTHER_KEY, OWNER, claim, metas

POLICY = Policy((GATE_KEY,), frozenset({OWNER}), a_view())
HOST = claim().host

Json = dict[str, Any]


def login(**changes: Any) -> Json:
    """Return the login that frpc 0.70.1 sends, with *changes*."""
    content = {
        "version": "0.70.1",
        "hostname": "pod",
        "os": "linux",
        "arch": "amd64",
        "privilege_key": "24d2a85af09ff711136e3399843a406a",
        "timestamp": 1795262262,
        "metas": metas(claim()),
        "client_spec": {},
        "pool_count": 1,
        "client_address": "10.0.0.9:55390",
    }
    return {"version": "0.1.0", "op": "Login", "content": content | changes}


def new_proxy(**changes: Any) -> Json:
    """Return the NewProxy that frpc 0.70.1 sends, with *changes*."""
    content = {
        "user": {"user": "", "metas": metas(claim()), "run_id": "1"},
        "proxy_name": HOST,
        "proxy_type": "tcpmux",
        "custom_domains": [HOST],
        "multiplexer": "httpconnect",
    }
    return {"version": "0.1.0", "op": "NewProxy", "content": content | changes}


def new_user_conn(**changes: Any) -> Json:
    """Return the NewUserConn that frps 0.70.1 sends, with *changes*."""
    content = {
        "user": {"user": "", "metas": metas(claim()), "run_id": "1"},
        "proxy_name": HOST,
        "proxy_type": "tcpmux",
        "remote_addr": "203.0.113.7:55632",
    }
    return {"version": "0.1.0", "op": "NewUserConn", "content": content | changes}


def said_by(**changes: Any) -> Json:
    """Return a client whose metadata has *changes*; a value of None removes the key."""
    changed = metas(claim()) | changes
    return {"user": "", "metas": {key: value for key, value in changed.items() if value is not None}, "run_id": "1"}


@pytest.mark.parametrize("request_", [login(), new_proxy(), new_user_conn()], ids=["Login", "NewProxy", "NewUserConn"])
def test_a_unit_may_have_what_is_its_own(request_: Json) -> None:
    """The exact requests of the pinned frp pass; who is allowed is known by name."""
    allowed = judge(request_, POLICY)
    assert (allowed.op, allowed.claim) == (request_["op"], claim())


def test_a_session_tells_the_client_address() -> None:
    """The address for the log is that of the user, which only frps knows."""
    assert judge(new_user_conn(), POLICY).client == "203.0.113.7:55632"


OTHER = claim("other").host

METAS: dict[str, Json] = {
    "none": dict.fromkeys(metas(claim())),
    "no capability": {"capability": None},
    "no owner": {"owner": None},
    "one too many": {"role": "admin"},
    "not a string": {"unit": 7},
    "empty capability": {"capability": ""},
    "another unit's capability": {"capability": metas(claim("other"))["capability"]},
    "another key's capability": {"capability": metas(claim(), OTHER_KEY)["capability"]},
    "another unit's name": {"unit": "other"},
    "another unit's host": {"host": OTHER},
    "unknown owner": metas(claim(owner="prod")),
    "empty owner": metas(claim(owner="")),
    "capable, but for every host": metas(claim()) | {"host": "*"},
    "upper case": {"host": HOST.upper()},
}


@pytest.mark.parametrize("changes", METAS.values(), ids=METAS.keys())
@pytest.mark.parametrize("op", ["Login", "NewProxy", "NewUserConn"])
def test_nobody_passes_under_another_name(op: str, changes: Json) -> None:
    """Whatever the metadata says that the capability does not prove is refused, at each of the three doors."""
    user = said_by(**changes)
    request = {
        "Login": login(metas=user["metas"]),
        "NewProxy": new_proxy(user=user),
        "NewUserConn": new_user_conn(user=user),
    }[op]
    with pytest.raises(RefusedError):
        judge(request, POLICY)


SIGNED_BY_A_CARELESS_STACK = {
    "of another namespace": "trainer.lab-b.ssh.example.test",
    "wildcard": "*.lab-a.ssh.example.test",
    "everything": "*",
    "without suffix": "trainer.lab-a",
    "upper case": "TRAINER.lab-a.ssh.example.test",
    "trailing dot": "trainer.lab-a.ssh.example.test.",
    "too long": f"trainer.lab-a.{'a.' * 130}test",
    "not ASCII": "tráiner.lab-a.ssh.example.test",
}


@pytest.mark.parametrize("host", SIGNED_BY_A_CARELESS_STACK.values(), ids=SIGNED_BY_A_CARELESS_STACK.keys())
def test_a_signed_host_must_still_be_of_the_namespace(host: str) -> None:
    """A valid capability does not help a host that is not ``<unit>.<namespace>.<suffix>``."""
    said = type(claim())(OWNER, "lab-a", "trainer", host)
    with pytest.raises(RefusedError, match="host"):
        judge(login(metas=metas(said)), POLICY)


@pytest.mark.parametrize("field", ["namespace", "unit"])
@pytest.mark.parametrize("value", ["", "a/b", "a\0b", "A", "-a", "a" * 64])
def test_names_are_dns_labels(field: str, value: str) -> None:
    """A capable name which is no DNS label is refused: no two readings of one signed text exist."""
    said = {"namespace": "lab-a", "unit": "trainer", field: value}
    with pytest.raises(RefusedError):
        judge(login(metas=metas(type(claim())(OWNER, said["namespace"], said["unit"], HOST))), POLICY)


PROXIES: dict[str, Json] = {
    "another's host": {"custom_domains": [OTHER]},
    "own and another's host": {"custom_domains": [HOST, OTHER]},
    "every host": {"custom_domains": ["*"]},
    "the namespace": {"custom_domains": [f"*.lab-a.{'.'.join(HOST.split('.')[2:])}"]},
    "upper case": {"custom_domains": [HOST.upper()]},
    "no host": {"custom_domains": []},
    "host is text": {"custom_domains": HOST},
    "another's name": {"proxy_name": OTHER},
    "empty name": {"proxy_name": ""},
    "another multiplexer": {"multiplexer": "tls"},
    "tcp": {"proxy_type": "tcp", "remote_port": 22},
    "udp": {"proxy_type": "udp", "remote_port": 53},
    "http": {"proxy_type": "http"},
    "https": {"proxy_type": "https"},
    "stcp": {"proxy_type": "stcp", "sk": "x"},
    "sudp": {"proxy_type": "sudp", "sk": "x"},
    "xtcp": {"proxy_type": "xtcp", "sk": "x"},
    "group": {"group": "g", "group_key": "k"},
    "subdomain": {"subdomain": "other"},
    "locations": {"locations": ["/"]},
    "route by user": {"route_by_http_user": "root"},
    "user": {"http_user": "root"},
    "password": {"http_pwd": "x"},
    "remote port": {"remote_port": 22},
    "host header": {"host_header_rewrite": "x"},
    "headers": {"headers": {"x": "y"}},
    "encryption": {"use_encryption": True},
    "bandwidth on the server": {"bandwidth_limit": "1KB", "bandwidth_limit_mode": "server"},
    "something of a later frp": {"route_by_moon": 1},
    "user prefix": {"user": {"user": "other", "metas": metas(claim()), "run_id": "1"}},
    "no client": {"user": None},
}


@pytest.mark.parametrize("changes", PROXIES.values(), ids=PROXIES.keys())
def test_a_proxy_is_the_units_own_and_nothing_wider(changes: Json) -> None:
    """A capable unit announces its own host under its own name by plain tcpmux, and nothing else."""
    with pytest.raises(RefusedError):
        judge(new_proxy(**changes), POLICY)


@given(st.text(min_size=1), st.sampled_from(["x", 1, True, [0], {"x": 0}, 0.5]))
def test_no_unknown_field_passes(field: str, value: Any) -> None:
    """What nobody has judged widens nothing: each further field with a value is refused."""
    for request in (login(), new_proxy()):
        if field not in request["content"] and field not in ("run_id", "user"):
            with pytest.raises(RefusedError, match="not allowed here"):
                judge({**request, "content": {**request["content"], field: value}}, POLICY)


LOGINS: dict[str, Json] = {
    "user prefix": {"user": "other"},
    "client id": {"client_id": "other"},
    "ssh gateway": {"client_spec": {"type": "ssh-tunnel", "always_auth_pass": True}},
    "negative pool": {"pool_count": -100},
    "large pool": {"pool_count": 6},
    "odd pool": {"pool_count": "1"},
    "true pool": {"pool_count": True},
}


@pytest.mark.parametrize("changes", LOGINS.values(), ids=LOGINS.keys())
def test_a_login_asks_for_nothing_more(changes: Json) -> None:
    """A capable client logs in as a plain frpc does, or not at all."""
    with pytest.raises(RefusedError):
        judge(login(**changes), POLICY)


def test_a_foreign_run_id_takes_nothing_over() -> None:
    """A run id of another unit, or of nobody, is replaced by one of its own; everything else stays as it was."""
    other = judge(login(metas=metas(claim("other"))), POLICY)
    assert other.content is not None
    for stolen in (other.content["run_id"], "72597bd25999419a", "", 7):
        allowed = judge(login(run_id=stolen), POLICY)
        assert allowed.content is not None
        assert allowed.content["run_id"] not in (stolen, "")
        assert {**allowed.content, "run_id": 0} == {**login()["content"], "run_id": 0}


def test_an_own_run_id_is_kept() -> None:
    """A client that lost its connection takes its own session over again."""
    first = judge(login(), POLICY)
    assert first.content is not None
    assert judge(login(run_id=first.content["run_id"]), POLICY).content is None


CONNECTIONS: dict[str, Json] = {
    "another's proxy": {"proxy_name": OTHER},
    "no proxy": {"proxy_name": ""},
    "another type": {"proxy_type": "stcp"},
    "user prefix": {"user": {"user": "u", "metas": metas(claim()), "run_id": "1"}},
}


@pytest.mark.parametrize("changes", CONNECTIONS.values(), ids=CONNECTIONS.keys())
def test_a_session_is_for_the_units_own_proxy(changes: Json) -> None:
    """A session is let in only to the proxy that the client's capability is for."""
    with pytest.raises(RefusedError):
        judge(new_user_conn(**changes), POLICY)


@pytest.mark.parametrize("op", ["Ping", "CloseProxy", "NewWorkConn", "login", "", None, 7, ["Login"]])
def test_other_operations_are_refused(op: Any) -> None:
    """The gate answers what it was made for; a Ping that reached it would be a mistake in frps's configuration."""
    with pytest.raises(RefusedError):
        judge({**login(), "op": op}, POLICY)


@pytest.mark.parametrize(
    "request_", [None, [], "x", 7, {}, {**login(), "version": "0.2.0"}, {**login(), "content": []}]
)
def test_what_is_no_request_is_refused(request_: Any) -> None:
    """Another protocol version, or no object at all, is refused."""
    with pytest.raises(RefusedError):
        judge(request_, POLICY)


def test_without_owners_or_keys_nobody_passes() -> None:
    """An empty policy allows nothing."""
    for policy in (Policy((), frozenset({OWNER}), a_view()), Policy((GATE_KEY,), frozenset(), a_view())):
        with pytest.raises(RefusedError):
            judge(login(), policy)


@pytest.mark.parametrize("request_", [login(), new_proxy(), new_user_conn()], ids=["Login", "NewProxy", "NewUserConn"])
def test_a_unit_that_is_gone_may_nothing(request_: Json) -> None:
    """At each of the three doors a good capability of a unit that the cluster does not have is refused."""
    view = a_view()
    view.services.replace([])
    with pytest.raises(RefusedError, match="no unit 'trainer' in 'lab-a'"):
        judge(request_, Policy((GATE_KEY,), frozenset({OWNER}), view))


def test_who_proves_nothing_learns_nothing_of_units() -> None:
    """A client without a capability is told the same of a unit that is there and of one that is not."""
    told = []
    for unit in ("trainer", "nobody"):
        with pytest.raises(RefusedError) as refused:
            judge(login(metas=metas(claim(unit), OTHER_KEY)), POLICY)
        told.append(str(refused.value).replace(unit, ""))
    assert told[0] == told[1]


def test_a_stack_signs_for_no_namespace_of_another() -> None:
    """Two stacks on one cluster: the key of the second signs no right to what is of the first."""
    both = Policy((GATE_KEY,), frozenset({OWNER, "prod"}), a_view())
    with pytest.raises(RefusedError, match="no namespace 'lab-a' of stack 'prod'"):
        judge(login(metas=metas(claim(owner="prod"))), both)


def test_what_the_previous_key_allows_is_known() -> None:
    """While a secret is rotated, who still comes with the old one is allowed and named, so that one sees it end."""
    old = Policy((OTHER_KEY, GATE_KEY), frozenset({OWNER}), a_view())
    for request in (login(), new_proxy(), new_user_conn()):
        assert (judge(request, old).previous, judge(request, POLICY).previous) == (True, False)


def test_a_refusal_tells_no_secret() -> None:
    """What is told to the client and to the log is never the capability, given or right."""
    capability = metas(claim())["capability"]
    for changes in METAS.values():
        with pytest.raises(RefusedError) as refused:
            judge(login(metas=said_by(**changes)["metas"]), POLICY)
        assert capability not in str(refused.value)


def test_judging_changes_nothing() -> None:
    """A request is the same after it was judged."""
    request = login()
    before = copy.deepcopy(request)
    judge(request, POLICY)
    assert json.dumps(request) == json.dumps(before)
