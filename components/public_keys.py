"""Public SSH keys as people paste them: each line is judged here, before sshd reads it.

sshd itself only skips a line that it does not like, and says so in a log that nobody reads.
"""

import base64
import datetime as dt
import re
from collections.abc import Iterable

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

from components import key_options

HARDWARE = ("sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com")
SOFTWARE = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")
KINDS = SOFTWARE + HARDWARE
"""What logs in; images/ssh-bundle/libexec/serve accepts signatures of these and no others."""

RSA_BITS = 3072
"""128 bits of strength, as the other kinds have; the bundle's sshd refuses smaller ones, too."""

MOST_RSA_BITS = 16384
MOST_RSA_EXPONENT_BITS = 64
"""Above these libcrypto verifies nothing."""

LONGEST_LINE = 4096
"""Bytes: the largest key (3 KiB) with its options and comment; 250 such lines fit into a ConfigMap."""

LONGEST_COMMENT = 200
"""Characters: a user at the longest host name."""

GOOD = f"accepted are Ed25519, ECDSA, RSA from {RSA_BITS} bits, and security keys (ssh-keygen -t ed25519 makes one)"

PRIVATE = ("PRIVATE KEY", "PuTTY-User-Key-File", "Private-Lines", "b3BlbnNzaC1rZXktdjE")
"""In every form of a private key; the last is how OpenSSH's own form begins in base64."""

WORD = re.compile(r'(?:[^ "\\]|\\"|\\(?!")|"(?:\\"|[^"\\]|\\(?!"))*")++(?= |$)')
"""The first word of a line for sshd: blanks within quotes do not end it."""

CERTIFICATE = "-cert-v01@openssh.com"

CURVE_25519 = 2**255 - 19
SMALL_ORDER = frozenset(
    int.from_bytes(bytes.fromhex(point), "little") % CURVE_25519
    for point in (
        "00" * 32,
        "01" + "00" * 31,
        "ec" + "ff" * 30 + "7f",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    )
)
"""y of the eight points of Ed25519 for which anybody can make signatures: a placeholder of zeros is one of them."""


def authorized_key(line: str) -> str:
    """Check one line of authorized_keys and give it as ``[options] type base64 [comment]``.

    Raises ValueError with what would be right. It never repeats the line, which may be something secret.
    """
    text = _one_line(line)
    options, rest = _options(text)
    key = _key(rest)
    if options:
        key_options.check(options, hardware=key.startswith(HARDWARE))
    return f"{options} {key}" if options else key


def plain_key(line: str) -> str:
    """Check a key that takes no options, such as a CA's, and give it as ``type base64 [comment]``.

    Raises ValueError with what would be right.
    """
    options, rest = _options(_one_line(line))
    if options:
        raise ValueError("has options before the key; write the key alone")
    return _key(rest)


def blob(line: str) -> str:
    """Give the key itself, in base64, of a line that was checked: the same for the same key, whatever is around it."""
    return _options(line)[1].split(" ")[1]


def repeated(lines: Iterable[str]) -> list[tuple[int, int]]:
    """List (first, later) positions of checked *lines* that hold the same key."""
    first: dict[str, int] = {}
    found = ((first.setdefault(blob(line), at), at) for at, line in enumerate(lines))
    return [(before, at) for before, at in found if before != at]


def expiry(line: str) -> dt.datetime | None:
    """Say from when on a checked line opens nothing any more, if ever."""
    options, _ = _options(line)
    return key_options.expiry(options) if options else None


def _one_line(line: str) -> str:
    text = line.strip().replace("\t", " ")
    if any(mark in text for mark in PRIVATE):
        raise ValueError("is a private key; write the public one (the file that ends in .pub), and replace this key")
    if "PUBLIC KEY" in text:
        raise ValueError("is a public key in another form; `ssh-keygen -i -f FILE` (or -m PKCS8 -i) gives OpenSSH's")
    if len(text.splitlines()) > 1:
        raise ValueError("has more than one line; write each key as an entry of its own")
    if not text or text.startswith("#"):
        raise ValueError("has no key; leave the entry out")
    if not text.isprintable():
        raise ValueError("has characters that cannot be printed; write the key as ssh-keygen does")
    if len(text.encode()) > LONGEST_LINE:
        raise ValueError(f"is longer than {LONGEST_LINE} bytes; shorten its options or its comment")
    return text


def _options(text: str) -> tuple[str, str]:
    """Split *text* into options, if any, and the rest, as sshd does: a line that begins with a type has none."""
    found = WORD.match(text)
    if found is None:
        raise ValueError("has a quote that is never closed")
    rest = text[found.end() :].lstrip(" ")
    return (found[0], rest) if _is_kind(rest.partition(" ")[0]) else ("", text)


def _is_kind(word: str) -> bool:
    return word in KINDS or word == "ssh-dss" or word.endswith(CERTIFICATE)


def _key(text: str) -> str:
    kind, _, rest = text.partition(" ")
    encoded, _, comment = rest.strip().partition(" ")
    comment = comment.strip()
    if kind not in KINDS:
        raise ValueError(_other_kind(kind))
    if len(comment) > LONGEST_COMMENT:
        raise ValueError(f"has a comment of {len(comment)} characters; at most {LONGEST_COMMENT} are allowed")
    return " ".join(filter(None, (kind, _checked(kind, encoded), comment)))


def _other_kind(kind: str) -> str:
    if kind.endswith(CERTIFICATE):
        return "is a certificate; name the CA that signed it in ssh.userCa"
    if kind == "ssh-dss":
        return f"is of type ssh-dss (DSA), which OpenSSH gave up; {GOOD}"
    if re.fullmatch(r"[a-z][a-z0-9@.-]{2,39}", kind):
        return f"begins with {kind!r}, which is no type of key that logs in here; {GOOD}"
    return "is no public key; expected '[options] <type> <base64> [comment]', as ssh-keygen writes it to a .pub file"


def _checked(kind: str, encoded: str) -> str:
    """Give the base64 of a key in its one right form."""
    try:
        key = load_ssh_public_key(f"{kind} {_base64(encoded)}".encode())
    except (ValueError, NotImplementedError, UnsupportedAlgorithm):
        raise ValueError(
            f"is no {kind} public key: its base64 is cut, mistyped or of another type; copy the whole line"
        ) from None
    if isinstance(key, rsa.RSAPublicKey):
        _check_rsa(key)
    if isinstance(key, ed25519.Ed25519PublicKey):
        _check_point(key.public_bytes_raw())
    if kind in SOFTWARE and key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) != f"{kind} {encoded}".encode():
        raise ValueError(f"is a {kind} key written in an unusual way; write it as ssh-keygen does")
    return encoded


def _base64(text: str) -> str:
    """Give *text* if it is base64 in its one right form. Raises ValueError."""
    if base64.b64encode(base64.b64decode(text, validate=True)).decode() != text:
        raise ValueError("is no canonical base64")
    return text


def _check_rsa(key: rsa.RSAPublicKey) -> None:
    if not RSA_BITS <= key.key_size <= MOST_RSA_BITS:
        allowed = f"from {RSA_BITS} to {MOST_RSA_BITS}"
        raise ValueError(f"is an RSA key of {key.key_size} bits; {allowed} are accepted (ssh-keygen -t rsa -b 4096)")
    if key.public_numbers().e.bit_length() > MOST_RSA_EXPONENT_BITS:
        raise ValueError("is an RSA key whose exponent no sshd verifies; make another (ssh-keygen -t rsa -b 4096)")


def _check_point(raw: bytes) -> None:
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    if y % CURVE_25519 in SMALL_ORDER:
        raise ValueError("is an Ed25519 key for which anybody can sign (a placeholder?); write a real one")
