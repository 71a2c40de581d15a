"""Echoes over WebSocket with Python's websockets: websocket_echo.py URL [CA]"""

import asyncio
import os
import ssl
import sys

import websockets

SIZES = [0, 1, 125, 126, 65535, 65536, 1 << 20]


async def main(url, ca):
    tls = ssl.create_default_context(cafile=ca) if url.startswith("wss:") else None
    messages = 0
    # Our server agrees on no compression, whatever is offered.
    async with websockets.connect(url, ssl=tls, max_size=None) as socket:
        assert not socket.protocol.extensions, socket.protocol.extensions
        for size in SIZES:
            text = ("κόσμε " * (size // 6 + 1))[:size]
            for message in text, os.urandom(size):
                await socket.send(message)
                assert await socket.recv() == message, f"{size} {type(message)}"
                messages += 1
        # Sent in fragments, answered as one message.
        await socket.send(["in ", "three ", "pieces"])
        assert await socket.recv() == "in three pieces"
        # Several on their way at once come back in order.
        for number in range(100):
            await socket.send(str(number))
        for number in range(100):
            assert await socket.recv() == str(number)
        await (await socket.ping(b"are you there"))
    assert socket.close_code == 1000, socket.close_code

    # Many at once, each on a connection of its own.
    async def one(number):
        async with websockets.connect(url, ssl=tls) as socket:
            await socket.send(f"hello {number}")
            assert await socket.recv() == f"hello {number}"

    await asyncio.gather(*map(one, range(50)))
    print(f"{messages + 101 + 50} messages on 51 connections echoed (websockets {websockets.__version__})")


asyncio.run(main(*sys.argv[1:]))
