"""A web server for quire.dev that has only the files of the distribution, behind a proxy of this machine: Go asks for
https://quire.dev as it would on the internet."""
import contextlib
import http.server
import pathlib
import ssl
import threading

from shell import fresh_folder, run

HOST = "quire.dev"


def certificate(folder):
    """Returns a key and a certificate of the host, which Go trusts if SSL_CERT_FILE names it."""
    key, made = folder / "key.pem", folder / "certificate.pem"
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
        "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}", "-keyout", key, "-out", made)
    return key, made


class Proxy(http.server.SimpleHTTPRequestHandler):
    """Answers CONNECT to the host with TLS of its own, and serves the files of the site."""
    site = context = None

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=str(self.site))

    def do_CONNECT(self):  # noqa: N802, the name is that of the method
        if self.path != f"{HOST}:443":
            self.send_error(403)
            return
        self.send_response(200)
        self.end_headers()
        self.connection = self.context.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
        self.close_connection = False

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(site, work):
    """Serves a folder as https://quire.dev, and yields the variables with which Go finds it."""
    key, made = certificate(fresh_folder(work))
    Proxy.site, Proxy.context = pathlib.Path(site), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    Proxy.context.load_cert_chain(made, key)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield {"HTTPS_PROXY": address, "HTTP_PROXY": address, "NO_PROXY": "", "SSL_CERT_FILE": str(made)}
    finally:
        server.shutdown()
        server.server_close()
