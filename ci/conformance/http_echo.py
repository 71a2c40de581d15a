"""Echoes over HTTP with Python's httpx: http_echo.py URL [CA]"""

import gzip
import os
import ssl
import sys

import httpx

url, ca = sys.argv[1:]
verify = ssl.create_default_context(cafile=ca) if url.startswith("https:") else True
requests = 0

# Nothing of the environment's proxies, and one connection for all.
limits = httpx.Limits(max_connections=1)
with httpx.Client(verify=verify, limits=limits, trust_env=False, timeout=20) as client:
    connections = set()
    for number in range(200):
        body = os.urandom(number * 100)
        response = client.post(url + f"echo?{number}", content=body)
        assert response.status_code == 200 and response.content == body, (number, response)
        connections.add(response.extensions["network_stream"].get_extra_info("client_addr"))
        requests += 1
    # What is encoded comes back as it was sent: neither undone nor done.
    packed = gzip.compress(b"x" * 10_000)
    response = client.post(url, content=packed, headers={"Content-Encoding": "gzip", "Accept-Encoding": "gzip"})
    assert response.content == packed and "content-encoding" not in response.headers, response.headers
    # Of unknown length: in chunks.
    response = client.post(url, content=(b"piece %d " % number for number in range(100)))
    assert response.content == b"".join(b"piece %d " % number for number in range(100))
    response = client.post(url, json={"a": [1, 2]})
    assert response.json() == {"a": [1, 2]} and response.headers["content-type"] == "application/json"
    response = client.head(url)
    assert response.status_code == 200 and response.content == b""
    response = client.get(url, params={"q": "κόσμε"})
    assert response.status_code == 200 and response.headers["content-length"] == "0"
    response = client.request("PROPFIND", url, content=b"<a/>")
    assert response.status_code == 200 and response.content == b"<a/>"
    connections.add(response.extensions["network_stream"].get_extra_info("client_addr"))
    requests += 6
    assert len(connections) == 1, connections

print(f"{requests} requests on one connection (httpx {httpx.__version__})")
