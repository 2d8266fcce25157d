"""Certificates for whatever host is asked for, of an authority that only the runs of the comparison trust."""

import datetime
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LIFE = datetime.timedelta(days=2)


class Names:
    """Makes a certificate of each host when its name is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stand-in")])
        self.authority = folder / "authority.pem"
        """What the runs trust."""
        certificate = self._certificate(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.authority.write_bytes(
            certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )

    def context(self) -> ssl.SSLContext:
        """What a server listens with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sni_callback = self._choose
        context.load_cert_chain(self._written("localhost"))
        return context

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        host = name or "localhost"
        if host not in self._contexts:
            context = self._contexts[host] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._written(host))
        connection.context = self._contexts[host]

    def _written(self, host: str) -> Path:
        path = self._folder / f"{host}.pem"
        if not path.exists():
            key = ec.generate_private_key(ec.SECP256R1())
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
            certificate = self._certificate(subject, key).add_extension(
                x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False
            )
            path.write_bytes(
                key.private_bytes(
                    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                )
                + certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
            )
        return path

    def _certificate(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _LIFE)
            .not_valid_after(now + _LIFE)
        )
