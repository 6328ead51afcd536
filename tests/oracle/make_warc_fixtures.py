#!/usr/bin/env python3
"""Writes tests/fixtures/curate/warc: archives that other programs wrote of the same few pages, and pages.jsonl, what their records hold.

  python tests/oracle/make_warc_fixtures.py tests/fixtures/curate/warc

wget.warc.gz: wget --warc-file, with its request, response, metadata and resource records; warcio.warc.gz and warcio.warc: warcio's writer around the answers as they came, one of them again
as a revisit record; fastwarc.warc.gz: the records of warcio.warc.gz written again by fastwarc. The pages come from a server on this machine: plain, in chunks, gzip, in windows-1252,
missing, moved. Needs: wget, pip install warcio==1.8.1 fastwarc==2.0.1
"""
import gzip
import http.client
import http.server
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import threading

from fastwarc.warc import ArchiveIterator, WarcRecordType
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

TEXT = "<p>{} is a page of several sentences, which the reader of an archive should find whole. It has a second sentence, and a third one, too.</p>"
PAGES = {
    "/plain.html": ("text/html; charset=utf-8", "Plain – déjà vu", "plain"),
    "/chunked.html": ("text/html", "Chunked", "chunked"),
    "/gzip.html": ("text/html; charset=utf-8", "Gzip", "gzip"),
    "/both.html": ("text/html", "Both", "both"),
    "/windows.html": ("text/html; charset=windows-1252", "Windows €5", "plain"),
    "/data.bin": ("application/octet-stream", "Bytes", "plain"),
}


def html(title):
    return f"<!doctype html><title>{title}</title><body>" + TEXT.format(title) * 3


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/moved.html":
            self.send_response(301)
            self.send_header("Location", "/plain.html")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if self.path not in PAGES:
            body = html("Missing").encode()
            self.send_response(404)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            return self.wfile.write(body)
        kind, title, how = PAGES[self.path]
        body = html(title).encode("cp1252" if "1252" in kind else "utf-8")
        self.send_response(200)
        self.send_header("Content-Type", kind)
        if how in ("gzip", "both"):
            body = gzip.compress(body, mtime=0)
            self.send_header("Content-Encoding", "gzip")
        if how in ("chunked", "both"):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for i in range(0, len(body), 100):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(body[i:i + 100]), body[i:i + 100]))
            return self.wfile.write(b"0\r\n\r\n")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        return "Thu, 01 Jan 2026 00:00:00 GMT"


class Raw(http.client.HTTPResponse):
    """An answer whose bytes are kept as they come."""
    def __init__(self, sock, *words, **more):
        super().__init__(sock, *words, **more)
        self.kept = bytearray()
        inner, kept = self.fp, self.kept

        class Tee(io.RawIOBase):
            def readinto(self, buffer):
                data = inner.read1(len(buffer))
                buffer[:len(data)] = data
                kept.extend(data)
                return len(data)

            def readable(self):
                return True
        self.fp = io.BufferedReader(Tee())


def answers(port):
    for path in [*PAGES, "/missing.html", "/moved.html"]:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.response_class = Raw
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        yield f"http://127.0.0.1:{port}{path}", bytes(response.kept)
        connection.close()


def write_warcio(path, compressed, found):
    with open(path, "wb") as out:
        writer = WARCWriter(out, gzip=compressed)
        writer.write_record(writer.create_warcinfo_record(path.name, {"software": "warcio 1.8.1"}))
        for uri, raw in found:
            stream = io.BytesIO(raw)
            status = stream.readline().decode().rstrip().split(" ", 1)
            headers = []
            while line := stream.readline().decode().rstrip():
                headers.append(tuple(line.split(": ", 1)))
            head = StatusAndHeaders(status[1], headers, protocol=status[0])
            record = writer.create_warc_record(uri, "response", payload=io.BytesIO(stream.read()), http_headers=head)
            writer.write_record(record)
        writer.write_record(writer.create_revisit_record(found[0][0] + "?again", record.rec_headers.get_header("WARC-Payload-Digest"), found[0][0], "2026-01-01T00:00:00Z"))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    found = list(answers(port))
    write_warcio(folder / "warcio.warc.gz", True, found)
    write_warcio(folder / "warcio.warc", False, found)
    with open(folder / "fastwarc.warc.gz", "wb") as out:
        for record in ArchiveIterator(open(folder / "warcio.warc.gz", "rb"), parse_http=False):
            buffer = io.BytesIO()
            record.write(buffer)
            out.write(gzip.compress(buffer.getvalue(), mtime=0))
    with tempfile.TemporaryDirectory() as name:
        urls = [uri for uri, _ in found]
        subprocess.run(["wget", "-q", "--no-proxy", "--no-warc-keep-log", "--compression=none", f"--warc-file={name}/wget", "-P", name, *urls], check=False)
        (folder / "wget.warc.gz").write_bytes(pathlib.Path(name, "wget.warc.gz").read_bytes())
    with open(folder / "pages.jsonl", "w", encoding="utf-8") as out:
        for kind, title, _ in PAGES.values():
            if "html" in kind:
                out.write(json.dumps({"title": title, "text": "\n\n".join([TEXT.format(title)[3:-4]] * 3)}) + "\n")
    for file in sorted(folder.glob("*.warc*")):
        kinds = [str(r.record_type).split(".")[-1] for r in ArchiveIterator(open(file, "rb"), record_types=WarcRecordType.any_type)]
        print(file.name, file.stat().st_size, kinds)


if __name__ == "__main__":
    main()
