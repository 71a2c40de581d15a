"""Clients of TLS that break the rules, one connection each: bad_clients.py PORT CA

It prints how many connections there were, and how many of them the server must have ended by a fault. What the server says to a
client that stays to hear it is checked here.
"""

import json
import os
import socket
import ssl
import struct
import sys

port, ca = int(sys.argv[1]), sys.argv[2]
ALERT = 21


class Client:
    """A connection, and TLS beside it, so that a record can be changed before it is sent."""

    def __init__(self, context=None):
        self.stream = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = context or ssl.create_default_context(cafile=ca)
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def hello(self):
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return self.outgoing.read()

    def shake_hands(self):
        while True:
            try:
                self.tls.do_handshake()
                self.stream.sendall(self.outgoing.read())
                return
            except ssl.SSLWantReadError:
                self.stream.sendall(self.outgoing.read())
                self.incoming.write(self.stream.recv(1 << 16))

    def record(self, message):
        self.tls.write(message)
        return self.outgoing.read()

    def send(self, data):
        self.stream.sendall(data)

    def heard(self):
        """All that comes until the server closes."""
        heard = b""
        try:
            while piece := self.stream.recv(1 << 16):
                heard += piece
        except ConnectionResetError:
            pass
        self.stream.close()
        return heard

    def leave(self):
        self.stream.close()


def message(size):
    return struct.pack(">I", size) + os.urandom(size)


def garbage(client):
    client.send(b"\xff" + os.urandom(1000))
    client.heard()


def zeros(client):
    client.send(bytes(1000))
    client.heard()


def plain_http(client):
    client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    client.heard()


def half_a_hello(client):
    hello = client.hello()
    client.send(hello[: len(hello) // 2])
    client.leave()


def hello_and_gone(client):
    client.send(client.hello())
    client.leave()


def hello_twice(client):
    client.send(client.hello() * 2)
    heard = client.heard()
    assert heard, "no answer to the first"


def endless_hello(client):
    # A handshake message that claims to be 16 MiB long.
    body = b"\x01\xff\xff\xff" + bytes(16000)
    client.send(b"\x16\x03\x01" + struct.pack(">H", len(body)) + body)
    # An alert would be polite and is not owed (RFC 8446 section 6.2: SHOULD).
    client.heard()


def untrusting(client):
    try:
        client.shake_hands()
        raise AssertionError("whom does it trust?")
    except ssl.SSLCertVerificationError:
        client.send(client.outgoing.read())
        client.heard()


def old(client):
    client.send(client.hello())
    assert client.heard()[:1] == bytes([ALERT]), "no alert"


def half_a_record(client):
    client.shake_hands()
    record = client.record(message(1000))
    client.send(record[: len(record) // 2])
    client.leave()


def damaged_record(client):
    client.shake_hands()
    record = bytearray(client.record(message(1000)))
    record[100] ^= 1
    client.send(record)
    heard = client.heard()
    client.incoming.write(heard)
    try:
        while client.tls.read(1 << 16):
            pass
        raise AssertionError("no alert")
    except ssl.SSLError as error:
        assert "BAD_RECORD_MAC" in str(error), error


def long_record(client):
    client.shake_hands()
    client.send(b"\x17\x03\x03" + struct.pack(">H", 20000) + os.urandom(20000))
    client.heard()


def no_goodbye(client):
    client.shake_hands()
    client.send(client.record(message(10)))
    assert client.stream.recv(1)
    client.leave()


def nothing(client):
    client.leave()


def goodbye(client):
    client.shake_hands()
    try:
        client.tls.unwrap()
    except ssl.SSLWantReadError:
        client.send(client.outgoing.read())
    client.heard()


FAULTS = [garbage, zeros, plain_http, half_a_hello, hello_and_gone, hello_twice, endless_hello, untrusting, old]
FAULTS += [half_a_record, damaged_record, long_record, no_goodbye]
ORDERLY = [nothing, goodbye]


def context(kind):
    if kind is untrusting:
        return ssl.create_default_context()
    if kind is old:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        return context
    return None


for kind in FAULTS + ORDERLY:
    try:
        kind(Client(context(kind)))
    except Exception as error:
        sys.exit(f"{kind.__name__}: {type(error).__name__}: {error}")
print(json.dumps({"connections": len(FAULTS + ORDERLY), "faults": len(FAULTS)}))
