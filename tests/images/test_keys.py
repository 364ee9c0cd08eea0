"""Who gets in: every kind of key that is accepted at preview, certificates, and nothing that is refused there."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.images.agent import TOUCHED, UNTOUCHED, Token, agent, ecdsa_token, ed25519_token
from tests.images.containers import Client, Pod, Running, until
from tests.images.test_session_key import ended, session
from tests.ssh_keys import MADE, WEAK, keygen, make_key

SLEEP = ("/.gpu-runtime/bin/busybox", "sleep", "600")
HOST = "trainer.lab-a.ssh.example.com"
GOOD_UNTIL = "-1m:+1h"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Path:
    """A folder with a pair of every kind that ssh-keygen makes, two CAs, and the known_hosts of the unit."""
    folder = tmp_path_factory.mktemp("made")
    for kind, arguments in {**MADE, "rsa-2048": WEAK["rsa-2048"], "ca": ("ed25519",), "rsa-ca": ("rsa",)}.items():
        make_key(folder / kind, *arguments)
    (folder / "known_hosts").write_text((keys / "known_hosts").read_text())
    return folder


def listed(pod: Pod, *lines: str) -> None:
    """Let the unit's list be these lines."""
    (pod.path("keys") / "authorized_keys").write_text("".join(f"{line}\n" for line in lines))


def public(folder: Path, kind: str) -> str:
    """Return the public line of a pair."""
    return (folder / f"{kind}.pub").read_text().strip()


def gets_in(made: Path, running: Running, kind: str, *options: str) -> bool:
    """Whether somebody with this pair logs in; a refusal is one of the key, never anything else."""
    done = Client(made, running, kind).ssh("true", options=tuple(word for option in options for word in ("-o", option)))
    assert done.returncode == 0 or "Permission denied (publickey)" in done.stderr, done.stderr
    return done.returncode == 0


def test_every_kind_of_key_logs_in(pod: Pod, made: Path) -> None:
    """What ssh-keygen makes and the stack file takes opens the unit."""
    listed(pod, *(public(made, kind) for kind in MADE))
    with pod.main(*SLEEP) as running:
        assert {kind: gets_in(made, running, kind) for kind in MADE} == dict.fromkeys(MADE, True)


@pytest.mark.parametrize("make", [ed25519_token, ecdsa_token])
def test_security_keys_log_in_when_touched(pod: Pod, keys: Path, tmp_path: Path, make: Callable[[int], Token]) -> None:
    """A signature for which nobody touched the token opens nothing."""
    for flags, code in ((TOUCHED, 0), (UNTOUCHED, 255)):
        token = make(flags)
        listed(pod, token.public)
        with pod.main(*SLEEP) as running, agent(tmp_path / f"agent-{flags}", token) as place:
            identity = tmp_path / f"token-{flags}.pub"
            identity.write_text(token.public)
            client = Client(keys, running, str(identity))
            assert client.ssh("true", options=("-o", f"IdentityAgent={place}")).returncode == code


def test_weak_keys_do_not_log_in(pod: Pod, made: Path) -> None:
    """A short RSA key that got into the file opens nothing, whatever the client offers; nor does SHA-1."""
    listed(pod, public(made, "rsa-2048"), public(made, "rsa-3072"))
    with pod.main(*SLEEP) as running:
        assert gets_in(made, running, "rsa-3072")
        assert not gets_in(made, running, "rsa-2048")
        sha1 = Client(made, running, "rsa-3072").ssh("true", options=("-o", "PubkeyAcceptedAlgorithms=ssh-rsa"))
        assert sha1.returncode == 255


def test_dsa_does_not_log_in(pod: Pod, made: Path) -> None:
    """A DSA key that got into the file opens nothing."""
    if "ssh-dss" not in subprocess.run(["ssh", "-Q", "key"], check=True, capture_output=True, text=True).stdout.split():
        pytest.skip("the ssh-keygen of this machine makes no DSA keys any more")
    make_key(made / "dsa", *WEAK["dsa"])
    listed(pod, public(made, "dsa"))
    with pod.main(*SLEEP) as running:
        assert not gets_in(made, running, "dsa", "PubkeyAcceptedAlgorithms=+ssh-dss")


def test_options_of_a_key_hold(pod: Pod, made: Path) -> None:
    """A key that may run one command runs that one; one that has expired opens nothing, one that has not does."""
    listed(
        pod,
        f'restrict,command="echo \\"only this\\"" {public(made, "ed25519")}',
        f'expiry-time="20200101Z" {public(made, "ecdsa-256")}',
        f'expiry-time="22000101000000Z" {public(made, "ecdsa-384")}',
    )
    with pod.main(*SLEEP) as running:
        assert Client(made, running, "ed25519").ssh("id").stdout == "only this\n"
        assert not gets_in(made, running, "ecdsa-256")
        assert gets_in(made, running, "ecdsa-384")


def trusting(pod: Pod, *cas: str, principals: tuple[str, ...] = (HOST,)) -> None:
    """Let the unit trust these CAs for these principals, and no key."""
    listed(pod)
    (pod.path("keys") / "user_ca_keys").write_text("".join(f"{ca}\n" for ca in cas))
    (pod.path("keys") / "authorized_principals").write_text("".join(f"{name}\n" for name in principals))


def certify(made: Path, ca: str, *more: str, principals: str = f"other,{HOST}", valid: str = GOOD_UNTIL) -> None:
    """Have *ca* sign the Ed25519 pair, which ssh then offers."""
    names = ("-n", principals) if principals else ()
    keygen("-s", made / ca, "-I", "alice", *names, "-V", valid, *more, made / "ed25519.pub")


@pytest.fixture
def signed(made: Path, tmp_path: Path) -> Path:
    """A copy of the pairs for a test that signs."""
    for file in made.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
        (tmp_path / file.name).chmod(0o600)
    return tmp_path


CERTIFICATES: dict[str, tuple[str, dict[str, str], tuple[str, ...], bool]] = {
    "right": ("ca", {}, (), True),
    "rsa-ca": ("rsa-ca", {}, (), True),
    "other-principal": ("ca", {"principals": "notebook.lab-a.ssh.example.com"}, (), False),
    "no-principal": ("ca", {"principals": ""}, (), False),
    "wildcard": ("ca", {"principals": "*"}, (), False),
    "user-name": ("ca", {"principals": "alice"}, (), False),
    "expired": ("ca", {"valid": "-2h:-1h"}, (), False),
    "not-yet": ("ca", {"valid": "+1h:+2h"}, (), False),
    "other-ca": ("ecdsa-256", {}, (), False),
    "sha1": ("rsa-ca", {}, ("-t", "ssh-rsa"), False),
    "of-a-host": ("ca", {}, ("-h",), False),
    "from-elsewhere": ("ca", {}, ("-O", "source-address=203.0.113.0/24"), False),
}
"""Who signs what, and whether it opens the unit."""


@pytest.mark.parametrize("case", CERTIFICATES)
def test_certificates(pod: Pod, signed: Path, case: str) -> None:
    """A certificate of a trusted CA, with a principal of the unit and within its validity, logs in; no other does."""
    ca, said, more, good = CERTIFICATES[case]
    trusting(pod, public(signed, "ca"), public(signed, "rsa-ca"))
    certify(signed, ca, *more, **said)
    with pod.main(*SLEEP) as running:
        assert gets_in(signed, running, "ed25519") is good


def test_a_ca_comes_and_goes_without_a_restart(pod: Pod, signed: Path) -> None:
    """The files are read at each login; one that is empty or not there admits nobody."""
    listed(pod)
    certify(signed, "ca")
    with pod.main(*SLEEP) as running:
        assert not gets_in(signed, running, "ed25519")
        trusting(pod, public(signed, "ca"))
        assert gets_in(signed, running, "ed25519")
        trusting(pod, public(signed, "ca"), principals=())
        assert not gets_in(signed, running, "ed25519")
        trusting(pod)
        assert not gets_in(signed, running, "ed25519")
        trusting(pod, public(signed, "ca"))
        (pod.path("keys") / "authorized_principals").unlink()
        assert not gets_in(signed, running, "ed25519")


@pytest.mark.parametrize("lost", ["user_ca_keys", "authorized_principals"])
def test_a_session_ends_with_its_ca(pod: Pod, signed: Path, lost: str) -> None:
    """Whoever came by a certificate goes when its CA, or the principal that let them in, is listed no more."""
    trusting(pod, public(signed, "ca"))
    certify(signed, "ca")
    with pod.main(*SLEEP) as running, session(Client(signed, running, "ed25519")) as came:
        assert not ended(came)
        (pod.path("keys") / lost).write_text("")
        until(lambda: ended(came))


def test_a_ca_of_the_users_own_opens_nothing(pod: Pod, signed: Path) -> None:
    """Neither a CA nor principals in the home are read."""
    listed(pod)
    mine = pod.path("home") / ".ssh"
    mine.mkdir()
    (mine / "authorized_keys").write_text(f"cert-authority {public(signed, 'ca')}\n")
    (mine / "authorized_principals").write_text("alice\n")
    certify(signed, "ca", principals="alice")
    with pod.main(*SLEEP) as running:
        assert not gets_in(signed, running, "ed25519")


@pytest.mark.parametrize("cipher", ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr"])
def test_an_image_that_configures_openssl_changes_nothing(pod: Pod, made: Path, cipher: str) -> None:
    """What an image says for its own OpenSSL, sshd's does not hear: keys and ciphers are there all the same."""
    pod.image_file("/openssl.cnf", "openssl_conf = a\n[a]\nproviders = b\nalg_section = c\n[b]\n[c]\nnonsense = 1\n")
    pod.env |= {"OPENSSL_CONF": "/openssl.cnf", "OPENSSL_MODULES": "/nowhere"}
    listed(pod, public(made, "rsa-3072"))
    with pod.main(*SLEEP) as running:
        assert gets_in(made, running, "rsa-3072", f"Ciphers={cipher}")


def test_a_signature_of_another_key_opens_nothing(pod: Pod, keys: Path, tmp_path: Path) -> None:
    """Who offers a listed security key and signs with another is turned away."""
    token, other = ed25519_token(), ed25519_token()
    listed(pod, token.public)
    (tmp_path / "token.pub").write_text(token.public)
    with pod.main(*SLEEP) as running, agent(tmp_path / "agent", Token(token.public, other.sign)) as place:
        client = Client(keys, running, str(tmp_path / "token.pub"))
        assert client.ssh("true", options=("-o", f"IdentityAgent={place}")).returncode == 255
