"""Certificates of a rig, from two authorities: one for the cluster, one for etcd, which only the API server enters."""

import datetime as dt
import os
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tools.rig.network import Network

LIFETIME = dt.timedelta(days=365)
"""Of a certificate; each start issues new ones, so a rig would have to run for a year to outlive them."""

AUTHORITY_LIFETIME = dt.timedelta(days=3650)
"""Longer than any rig is kept: a new authority would make every copied kubeconfig useless."""

CLOCK_STEP = dt.timedelta(hours=1)
"""Certificates begin in the past, since a machine's clock may step back just after its start."""

LOCALHOST = IPv4Address("127.0.0.1")


@dataclass(frozen=True)
class Identity:
    """Who a client certificate speaks for, in Kubernetes' words."""

    user: str
    group: str | None = None


@dataclass(frozen=True)
class Authority:
    """A certificate authority."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def node_name(rig: str) -> str:
    """Return the name of the rig's one node."""
    return f"rig-{rig}"


def identities(rig: str) -> dict[str, Identity]:
    """Return every client of the API server by the name of its files; each has rights of its own and no more."""
    return {
        "admin": Identity("rig-admin", "system:masters"),
        "kube-controller-manager": Identity("system:kube-controller-manager"),
        "kube-scheduler": Identity("system:kube-scheduler"),
        "kube-proxy": Identity("system:kube-proxy"),
        "kubelet": Identity(f"system:node:{node_name(rig)}", "system:nodes"),
        "kube-router": Identity("rig:kube-router"),
        "local-path-provisioner": Identity("rig:local-path-provisioner"),
        # What the API server shows to the kubelet for logs and exec.
        "kubelet-client": Identity("rig:kubelet-client"),
    }


def write_all(folder: Path, rig: str, network: Network) -> None:
    """Issue all certificates into *folder*; authorities and the service-account key found there are kept."""
    folder.mkdir(mode=0o700, exist_ok=True)
    cluster, etcd = authority(folder, "ca", f"rig {rig}"), authority(folder, "etcd-ca", f"rig {rig} etcd")
    for name, identity in identities(rig).items():
        issue(folder / name, cluster, identity)
    api_names = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ]
    issue(
        folder / "kube-apiserver",
        cluster,
        Identity("kube-apiserver"),
        [network.node_ip, LOCALHOST, network.api_ip],
        api_names,
    )
    issue(folder / "kubelet-server", cluster, Identity(node_name(rig)), [network.node_ip], [node_name(rig)])
    issue(folder / "etcd", etcd, Identity("etcd"), [LOCALHOST])
    issue(folder / "etcd-client", etcd, Identity("kube-apiserver"))
    if not (folder / "service-account.key").exists():
        write_service_account_keys(folder)


def authority(folder: Path, stem: str, common_name: str) -> Authority:
    """Return the authority kept in *folder* under *stem*, made when it is not there."""
    key_file, certificate_file = folder / f"{stem}.key", folder / f"{stem}.crt"
    if key_file.exists() and certificate_file.exists():
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return Authority(key, x509.load_pem_x509_certificate(certificate_file.read_bytes()))
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = _builder(name, name, key.public_key(), AUTHORITY_LIFETIME)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    made = Authority(key, builder.add_extension(_usage(signs=True), critical=True).sign(key, hashes.SHA256()))
    _write(key_file, _pem(key))
    certificate_file.write_bytes(made.certificate.public_bytes(serialization.Encoding.PEM))
    return made


def issue(
    stem: Path,
    issuer: Authority,
    who: Identity,
    addresses: list[IPv4Address] | None = None,
    names: list[str] | None = None,
) -> None:
    """Write `<stem>.crt` and `<stem>.key`: for a server when it has *addresses*, else for a client."""
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, who.group)] if who.group else []
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, who.user)])
    usages = [ExtendedKeyUsageOID.SERVER_AUTH] if addresses else [ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = _builder(subject, issuer.certificate.subject, key.public_key(), LIFETIME)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    if addresses:
        alternatives = [
            *(x509.IPAddress(address) for address in addresses),
            *(x509.DNSName(name) for name in names or ()),
        ]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    certificate = builder.sign(issuer.key, hashes.SHA256())
    _write(stem.with_suffix(".key"), _pem(key))
    stem.with_suffix(".crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def write_service_account_keys(folder: Path) -> None:
    """Write the pair that signs and checks service-account tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "service-account.pub").write_bytes(public)
    _write(folder / "service-account.key", _pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: dt.timedelta
) -> x509.CertificateBuilder:
    begin = dt.datetime.now(dt.UTC) - CLOCK_STEP
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return builder.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(begin + lifetime)


def _usage(*, signs: bool) -> x509.KeyUsage:
    names = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only")
    others = dict.fromkeys((*names, "decipher_only"), False)
    return x509.KeyUsage(digital_signature=not signs, key_cert_sign=signs, crl_sign=signs, **others)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write(path: Path, text: bytes) -> None:
    """Write a key so that it is never readable by others, not even for a moment."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text)
