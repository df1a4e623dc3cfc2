"""`multipart/form-data` by the letter of RFC 7578 and RFC 2046. What is off is an error."""

import re

TYPE = re.compile(r'multipart/form-data; boundary=("?)([0-9A-Za-z\'()+_,./:=?-]{1,70})\1')
DISPOSITION = re.compile(r'form-data; name="([^"\r\n]+)"; filename="([^"\r\n]*)"')


class Malformed(Exception):
    pass


def parse(content_type: str, body: bytes) -> list[tuple[str, str, str, bytes]]:
    """The parts: field, file name, media type, bytes."""
    if not (found := TYPE.fullmatch(content_type)):
        raise Malformed(f"content type {content_type!r}")
    delimiter = b"--" + found[2].encode()
    if not body.startswith(delimiter + b"\r\n"):
        raise Malformed("the body does not begin with its boundary")
    if not body.endswith(b"\r\n" + delimiter + b"--\r\n"):
        raise Malformed("the body does not end with its boundary")
    inner = body[len(delimiter) + 2 : -(len(delimiter) + 6)]
    return [parse_part(part) for part in inner.split(b"\r\n" + delimiter + b"\r\n")]


def parse_part(part: bytes) -> tuple[str, str, str, bytes]:
    head, gap, content = part.partition(b"\r\n\r\n")
    if not gap:
        raise Malformed("a part has no empty line behind its headers")
    headers = {}
    for line in head.decode("utf-8").split("\r\n"):
        name, colon, value = line.partition(": ")
        if not colon or name.lower() in headers:
            raise Malformed(f"header {line!r}")
        headers[name.lower()] = value
    if headers.keys() - {"content-disposition", "content-type"}:
        raise Malformed(f"headers {sorted(headers)}")
    found = DISPOSITION.fullmatch(headers.get("content-disposition", ""))
    if not found:
        raise Malformed(f"disposition {headers.get('content-disposition')!r}")
    return found[1], found[2], headers.get("content-type", "text/plain"), content
