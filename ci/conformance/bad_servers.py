"""A server that ends badly: bad_servers.py MANNER CERT KEY

It prints its address, and at the end of its input the number of connections that were made.
"""

import os
import socket
import ssl
import sys
import threading

manner, certificate, key = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
if manner == "old":
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.maximum_version = context.minimum_version = ssl.TLSVersion.TLSv1_1
context.load_cert_chain(certificate, key)


def serve(stream):
    if manner == "closing":
        stream.recv(1)
    elif manner == "garbage":
        stream.sendall(b"\xff" + os.urandom(1000))
        stream.recv(1 << 16)
    elif manner == "plain":
        stream.recv(1 << 16)
        stream.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    elif manner == "silent":
        while stream.recv(1 << 16):
            pass
    else:
        tls = context.wrap_socket(stream, server_side=True)
        while message := tls.recv(1 << 16):
            if manner == "truncated":
                tls.sendall(message[: len(message) // 2])
                # Without a goodbye of TLS.
                os.close(tls.detach())
                return
            tls.sendall(message)
    stream.close()


def connection(stream):
    try:
        serve(stream)
    except OSError as error:
        print(error, file=sys.stderr)


def listen():
    global connections
    while True:
        stream, _ = listener.accept()
        connections += 1
        threading.Thread(target=connection, args=(stream,), daemon=True).start()


connections = 0
listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=listen, daemon=True).start()
print("127.0.0.1:%d" % listener.getsockname()[1], flush=True)
sys.stdin.read()
print(connections, flush=True)
