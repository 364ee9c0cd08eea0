"""What one origin alone can use of a code that an issuer gave: authenticated encryption with the origin's name in it.

It is deterministic (the shape of RFC 5297): the tag over origin and code is what the stream begins with, so that there
is no nonce to repeat. HMAC-SHA256 makes the tag, SHAKE256 with another key the stream. The image has Python alone.
"""

import base64
import binascii
import hashlib
import hmac

TAG_BYTES = 32


def seal(key: bytes, origin: str, code: str) -> str:
    """Give *code* for *origin*, as base64url without padding."""
    plain = code.encode()
    tag = _tag(key, origin, plain)
    return base64.urlsafe_b64encode(tag + _stream(key, tag, plain)).decode().rstrip("=")


def unseal(key: bytes, origin: str, sealed: str) -> str | None:
    """Give the code, None where it was not sealed for *origin* by this key."""
    try:
        said = base64.b64decode(sealed + "=" * (-len(sealed) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    tag, plain = said[:TAG_BYTES], _stream(key, said[:TAG_BYTES], said[TAG_BYTES:])
    return plain.decode() if hmac.compare_digest(tag, _tag(key, origin, plain)) else None


def _tag(key: bytes, origin: str, plain: bytes) -> bytes:
    return hmac.digest(_own(key, b"tag"), origin.encode() + b"\0" + plain, "sha256")


def _stream(key: bytes, tag: bytes, text: bytes) -> bytes:
    stream = hashlib.shake_256(_own(key, b"stream") + tag).digest(len(text))
    return bytes(one ^ other for one, other in zip(text, stream, strict=True))


def _own(key: bytes, use: bytes) -> bytes:
    return hmac.digest(key, use, "sha256")
