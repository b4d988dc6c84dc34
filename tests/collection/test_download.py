"""Downloads: private addresses, time and size limits, certificates."""

import pytest
from fakes.http_server import FakeServer, Response
from hypothesis import given
from hypothesis import strategies as st

from pipeline.collection.download import Downloader, DownloadLimits, is_public


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1",
        "::ffff:169.254.169.254", "2002:7f00:1::", "64:ff9b::a9fe:a9fe", "198.18.0.1", "240.0.0.1", "no address",
    ],
)  # fmt: skip
def test_private_and_special_addresses_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946"])
def test_internet_addresses_are_public(address):
    assert is_public(address)


@given(st.ip_addresses(v=4, network="10.0.0.0/8") | st.ip_addresses(v=4, network="127.0.0.0/8"))
def test_private_address_mapped_to_ipv6_is_not_public(address):
    assert not is_public(f"::ffff:{address}")


def refusal(url, *, resolve=lambda host, port: ["169.254.169.254"], hosts=("images.example",)):
    found = Downloader(DownloadLimits(), agent="test", resolve=resolve).fetch(url, hosts=set(hosts))
    return found.reason


def test_host_with_private_address_is_refused():
    assert "private or special network" in refusal("http://images.example/a.jpg")


def test_host_with_one_private_address_is_refused():
    assert "private" in refusal("http://images.example/a.jpg", resolve=lambda host, port: ["8.8.8.8", "127.0.0.1"])


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "ftp://images.example/a", "http://user:pass@images.example/a.jpg",
        "http://images.example\\@evil.example/", "http://images.example:22/a.jpg", "http://other.example/a.jpg",
        "http://ïmages.example/a.jpg", "//images.example/a.jpg", "http://[::1/a.jpg",
    ],
)  # fmt: skip
def test_unusual_urls_are_refused(url):
    assert refusal(url, resolve=lambda host, port: ["8.8.8.8"], hosts=("images.example", "images.example:22"))


def test_loopback_is_refused_by_default():
    with FakeServer(lambda request: Response(404)) as server:
        host = server.url.removeprefix("http://")
        reason = refusal(f"{server.url}/a.jpg", resolve=None, hosts=(host,))
        assert "port" in reason or "private" in reason
        assert not server.requests


def test_connection_uses_the_checked_address_and_the_host_name():
    with FakeServer(lambda request: Response(404 if request.path == "/robots.txt" else 200, b"\xff\xd8\xff")) as server:
        port = server.url.rpartition(":")[2]
        host = f"images.example:{port}"
        limits = DownloadLimits(private=frozenset([host]))
        downloader = Downloader(limits, agent="test", resolve=lambda host, _: ["127.0.0.1"])
        assert downloader.fetch(f"http://{host}/a.jpg", hosts={host}) == b"\xff\xd8\xff"
        assert server.requests[-1].headers["host"] == host


def test_slow_body_times_out():
    with FakeServer(lambda request: Response(404 if request.path == "/robots.txt" else 200, b"x", seconds=3)) as server:
        host = server.url.removeprefix("http://")
        limits = DownloadLimits(seconds=0.2, private=frozenset([host]), robots=False)
        found = Downloader(limits, agent="test").fetch(f"{server.url}/a.jpg", hosts={host})
        assert "longer than 0.2 s" in found.reason


def test_endless_body_is_cut_at_the_limit():
    import socket
    import threading

    listener = socket.create_server(("127.0.0.1", 0))

    def pour():
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: image/jpeg\r\n\r\n\xff\xd8\xff")
            try:
                while True:
                    connection.sendall(bytes(65536))
            except OSError:
                return

    thread = threading.Thread(target=pour, daemon=True)
    thread.start()
    host = f"127.0.0.1:{listener.getsockname()[1]}"
    limits = DownloadLimits(most_bytes=1_000_000, seconds=20, private=frozenset([host]), robots=False)
    found = Downloader(limits, agent="test").fetch(f"http://{host}/a.jpg", hosts={host})
    listener.close()
    thread.join(10)
    assert "longer than 1000000 bytes" in found.reason
    assert not thread.is_alive()


@pytest.fixture
def https_port(tmp_path, monkeypatch):
    """Start a server with a trusted certificate for images.example; return its port."""
    import ssl
    import threading
    from datetime import UTC, datetime, timedelta
    from http.server import BaseHTTPRequestHandler, HTTPServer

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "images.example")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("images.example")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
    certificate = (
        builder.add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    own = tmp_path / "own.pem"
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    public = certificate.public_bytes(serialization.Encoding.PEM)
    own.write_bytes(private + public)
    (tmp_path / "trusted.pem").write_bytes(public)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "trusted.pem"))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "3")
            self.end_headers()
            self.wfile.write(b"\xff\xd8\xff")

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(("host", "trusted"), [("images.example", True), ("other.example", False)])
def test_certificates_are_checked_for_the_host_name(https_port, host, trusted):
    host = f"{host}:{https_port}"
    limits = DownloadLimits(private=frozenset([host]), robots=False, seconds=10)
    downloader = Downloader(limits, agent="test", resolve=lambda name, port: ["127.0.0.1"])
    found = downloader.fetch(f"https://{host}/a.jpg", hosts={host})
    if trusted:
        assert found == b"\xff\xd8\xff"
    else:
        assert "could not be reached" in found.reason
