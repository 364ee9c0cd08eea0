"""What is accepted as a public key: every kind that logs in, in one right form; all else is refused with advice."""

import base64
import datetime as dt
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from components.public_keys import (
    CURVE_25519,
    KINDS,
    LONGEST_COMMENT,
    LONGEST_LINE,
    SMALL_ORDER,
    authorized_key,
    expiry,
    plain_key,
    repeated,
)
from tests.ssh_keys import ED25519, MADE, WEAK, dsa_line, keygen, line, make_key, mpint

KIND, BASE64, COMMENT = ED25519.split()
RAW = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw()
POINT = (
    ec.derive_private_key(7, ec.SECP256R1()).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
)
SK = line("sk-ssh-ed25519@openssh.com", RAW, b"ssh:")
SK_ECDSA = line("sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", POINT, b"ssh:work")
ODD_3072 = 1 << 3071 | 1


def refused(text: str) -> str:
    """Give what is said against *text*, which never is *text* itself."""
    with pytest.raises(ValueError, match=r".") as caught:
        authorized_key(text)
    return str(caught.value)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for keys."""
    return tmp_path_factory.mktemp("public-keys")


@pytest.mark.parametrize("kind", MADE)
def test_what_ssh_keygen_makes_is_accepted(folder: Path, kind: str) -> None:
    """Every kind that logs in is taken as it stands in the .pub file."""
    public = make_key(folder / kind, *MADE[kind])
    assert authorized_key(f"{public}\n") == public


@pytest.mark.parametrize("public", [SK, SK_ECDSA])
def test_keys_on_hardware_are_accepted(public: str) -> None:
    """Security keys log in, too, with whatever name their owner gave the key there; ssh-keygen reads the same key."""
    assert authorized_key(public) == public
    assert subprocess.run(["ssh-keygen", "-lf", "-"], input=public, text=True, check=False).returncode == 0


def test_a_small_rsa_key_is_refused_by_its_size(folder: Path) -> None:
    """2048 bits are told, and what is enough."""
    assert "RSA key of 2048 bits; from 3072 to 16384" in refused(make_key(folder / "small", *WEAK["rsa-2048"]))


PRIVATE = """-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABSECRETSECRET
-----END OPENSSH PRIVATE KEY-----"""


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (dsa_line(), "type ssh-dss (DSA), which OpenSSH gave up; accepted are Ed25519"),
        (f"restrict {dsa_line()}", "ssh-dss"),
        (f"ssh-ed25519-cert-v01@openssh.com {BASE64}", "is a certificate; name the CA"),
        (f"rsa-sha2-512 {BASE64}", "begins with 'rsa-sha2-512'"),
        (f"ssh-ed448 {BASE64}", "begins with 'ssh-ed448', which is no type"),
        ("", "has no key"),
        ("# alice", "has no key"),
        ("hunter2", "begins with 'hunter2'"),
        ("Hunter2!", "is no public key; expected"),
        (KIND, "no ssh-ed25519 public key"),
        (f"{KIND} AAAA", "no ssh-ed25519 public key"),
        (f"{KIND} {BASE64[:-4]}", "cut, mistyped"),
        (f"{KIND} {BASE64}=", "cut, mistyped"),
        (SK.replace("= ", "== "), "cut, mistyped"),
        (SK.replace("o= ", "p= "), "cut, mistyped"),
        (f"{KIND} *{BASE64}", "cut, mistyped"),
        (f"{KIND} λ{BASE64}", "cut, mistyped"),
        (f"{KIND}  {BASE64}AAAA", "cut, mistyped"),
        (f"ssh-rsa {BASE64}", "no ssh-rsa public key"),
        (line("ssh-ed25519", RAW[:31]), "no ssh-ed25519"),
        (line("ssh-ed25519", RAW, b"x"), "no ssh-ed25519"),
        (line("ecdsa-sha2-nistp256", b"nistp384", POINT), "no ecdsa-sha2-nistp256"),
        (line("ecdsa-sha2-nistp256", b"nistp256", POINT[:-1] + b"\0"), "no ecdsa-sha2-nistp256"),
        (line("ecdsa-sha2-nistp256", b"nistp256", b"\3" + POINT[1:33]), "no ecdsa-sha2-nistp256"),
        (line("sk-ssh-ed25519@openssh.com", RAW), "no sk-ssh-ed25519@openssh.com"),
        (line("sk-ssh-ed25519@openssh.com", RAW, b"https://x"), "no sk-ssh-ed25519@openssh.com"),
        (line("ssh-rsa", mpint(65537), mpint(1 << 16384 | 1)), "RSA key of 16385 bits"),
        (line("ssh-rsa", mpint(1 << 64 | 1), mpint(ODD_3072)), "exponent"),
        (line("ssh-rsa", mpint(1), mpint(ODD_3072)), "no ssh-rsa"),
        (line("ssh-rsa", mpint(65537), b"\0" + mpint(ODD_3072)), "unusual way"),
        (line("ssh-ed25519", bytes(32)), "anybody can sign"),
        (line("sk-ssh-ed25519@openssh.com", b"\1" + bytes(31), b"ssh:"), "anybody can sign"),
        (line("ssh-ed25519", (CURVE_25519 + 1).to_bytes(32, "little")), "anybody can sign"),
        (f"{ED25519}{'x' * LONGEST_COMMENT}", f"at most {LONGEST_COMMENT}"),
        (f"{ED25519}\x1b[2J", "cannot be printed"),
        (f"{ED25519} \u202eecila", "cannot be printed"),
        (f"{ED25519}\n{ED25519}", "more than one line"),
        (f"{ED25519}\r{ED25519}", "more than one line"),
        (f'restrict,command="{"x" * LONGEST_LINE}" {ED25519}', f"longer than {LONGEST_LINE} bytes"),
        (PRIVATE, "is a private key; write the public one"),
        (PRIVATE.splitlines()[1], "is a private key"),
        (f"{KIND} {PRIVATE.splitlines()[1]}", "is a private key"),
        ("PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\nSECRET", "is a private key"),
        ("---- BEGIN SSH2 PUBLIC KEY ----\nAAAA\n---- END SSH2 PUBLIC KEY ----", "ssh-keygen -i -f FILE"),
        (f'command="x {ED25519}', "never closed"),
    ],
)
def test_anything_else_is_refused_with_advice(text: str, advice: str) -> None:
    """The refusal says what is wrong and what would be right, and repeats nothing that may be secret."""
    said = refused(text)
    assert advice in said
    assert "SECRET" not in said
    assert BASE64[:20] not in said


@pytest.mark.parametrize(
    "options",
    [
        "restrict",
        "no-port-forwarding,no-agent-forwarding,no-X11-forwarding,no-pty,no-user-rc",
        "restrict,pty,port-forwarding,agent-forwarding",
        'restrict,command="rsync --server \\"a b\\" | tee \\x"',
        'expiry-time="20301231Z"',
        'expiry-time="203012312359Z",expiry-time="20301231235959Z"',
        'permitopen="localhost:8888",permitopen="[::1]:*",permitopen="*:22"',
        'permitlisten="8080",permitlisten="localhost:8080"',
    ],
)
def test_options_that_narrow_are_kept(options: str) -> None:
    """They stand before the key, as they were written."""
    assert authorized_key(f"{options}\t {ED25519}") == f"{options} {ED25519}"


def test_an_option_of_security_keys() -> None:
    """A PIN can be asked for where the key can do that, and is no option elsewhere."""
    assert authorized_key(f"verify-required {SK}") == f"verify-required {SK}"
    assert "only a security key" in refused(f"verify-required {ED25519}")


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ('from="10.0.0.0/8"', "127.0.0.1 for everybody"),
        ("cert-authority", "ssh.userCa"),
        ('cert-authority,principals="root"', "ssh.userCa"),
        ('principals="root"', "ssh.userCa"),
        ('environment="LD_PRELOAD=/x"', "the unit's `env`"),
        ('tunnel="0"', "-L, -R or -D"),
        ("no-touch-required", "without its owner's touch"),
        ("X11-forwarding", "off for every key"),
        ("user-rc", "off for every key"),
        ("no-restrict", "none of: agent-forwarding, command"),
        ("restrict,", "malformed"),
        (",restrict", "malformed"),
        ("restrict,,pty", "malformed"),
        ('restrict="yes"', "does not take"),
        ("command=ls", "malformed"),
        ("restrict,command", "must be a command, in quotes"),
        ('restrict,command=" "', "must be a command, in quotes"),
        ('restrict,command="a",command="b"', "twice"),
        ('command="ls"', "begin with restrict"),
        ('command="ls",restrict', "begin with restrict"),
        ('expiry-time="20301231"', "in UTC such as 20301231Z"),
        ('expiry-time="20301341Z"', "in UTC such as"),
        ('expiry-time="2030123Z"', "in UTC such as"),
        ('expiry-time="forever"', "in UTC such as"),
        ('permitopen="8888"', "host:port"),
        ('permitopen="localhost:0"', "host:port"),
        ('permitlisten="a b:1"', "a port or host:port"),
    ],
)
def test_options_that_do_more_are_refused(options: str, advice: str) -> None:
    """Whatever would widen, mislead or not work is refused with its reason."""
    assert advice in refused(f"{options} {ED25519}")


def test_a_ca_takes_no_options() -> None:
    """A CA's key stands alone."""
    assert plain_key(f" {ED25519}") == ED25519
    with pytest.raises(ValueError, match="has options before the key"):
        plain_key(f"restrict {ED25519}")


def test_a_key_is_the_same_whatever_is_around_it() -> None:
    """Comments and options hide no repetition."""
    assert repeated([ED25519, SK, f"{KIND} {BASE64} bob", f"restrict {ED25519}"]) == [(0, 2), (0, 3)]


def test_the_earliest_expiry_counts() -> None:
    """As sshd has it; a key without one never expires."""
    assert expiry(f'expiry-time="20310101Z",pty,expiry-time="203001020304Z" {ED25519}') == dt.datetime(
        2030, 1, 2, 3, 4, tzinfo=dt.UTC
    )
    assert expiry(ED25519) is None
    assert expiry(f"restrict {ED25519}") is None


def doubled(x: int, y: int) -> tuple[int, int]:
    """Double a point of the curve of Ed25519 (RFC 8032, section 5.1.4)."""
    d = -121665 * pow(121666, -1, CURVE_25519)
    shared = d * x * x * y * y
    new_x = 2 * x * y * pow(1 + shared, -1, CURVE_25519)
    new_y = (y * y + x * x) * pow(1 - shared, -1, CURVE_25519)
    return new_x % CURVE_25519, new_y % CURVE_25519


def test_the_points_of_small_order_are_those() -> None:
    """Each of the five is on the curve, and eight times itself is nothing."""
    d = -121665 * pow(121666, -1, CURVE_25519)
    assert len(SMALL_ORDER) == 5
    for y in SMALL_ORDER:
        square = (y * y - 1) * pow(d * y * y + 1, -1, CURVE_25519) % CURVE_25519
        root = pow(square, (CURVE_25519 + 3) // 8, CURVE_25519)
        x = next(
            x for x in (root, root * pow(2, (CURVE_25519 - 1) // 4, CURVE_25519)) if (x * x - square) % CURVE_25519 == 0
        )
        assert doubled(*doubled(*doubled(x, y))) == (0, 1)


@given(st.text())
def test_no_text_is_taken_for_a_key(text: str) -> None:
    """Whatever is pasted is refused in one sentence that is about it, and never by an accident of the parser."""
    assert "\n" not in refused(text)


@given(st.sampled_from([ED25519, SK, SK_ECDSA]), st.integers(0, 200), st.binary(max_size=3))
def test_a_damaged_key_never_changes_its_meaning(public: str, at: int, put: bytes) -> None:
    """What is accepted after a change of its bytes is a key of the same type and length, in its one right form."""
    kind, encoded, _ = public.split()
    data = bytearray(base64.b64decode(encoded))
    data[at % len(data) : at % len(data) + len(put)] = put
    changed = f"{kind} {base64.b64encode(data).decode()}"
    try:
        accepted = authorized_key(changed)
    except ValueError:
        return
    assert accepted == changed
    assert len(data) == len(base64.b64decode(encoded))


@given(
    st.lists(
        st.sampled_from(
            ["restrict", "pty", 'command="a, \\"b\\" c"', 'permitopen="h:1"', "from", '"', "\\", ",", " ", "="]
        )
    ),
    st.sampled_from([ED25519, SK]),
)
def test_an_accepted_line_reads_the_same_again(pieces: list[str], public: str) -> None:
    """Checking is a fixed point: what went into the file is what the next preview says."""
    try:
        accepted = authorized_key(f"{','.join(pieces)} {public}")
    except ValueError:
        return
    assert authorized_key(accepted) == accepted
    assert accepted.endswith(public)
    assert public.startswith(KINDS)


def test_a_certificate_of_ssh_keygen_is_no_key(folder: Path) -> None:
    """What a CA signed is refused by name; its place is the client."""
    make_key(folder / "ca", "ed25519")
    make_key(folder / "signed", "ed25519")
    keygen("-s", folder / "ca", "-I", "alice", "-n", "alice", folder / "signed.pub")
    assert "is a certificate; name the CA" in refused((folder / "signed-cert.pub").read_text())
