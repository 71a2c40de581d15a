// Echoes over WebSocket with Node's ws: websocket_echo.cjs URL [CA]
const assert = require('node:assert');
const { randomBytes } = require('node:crypto');
const { once } = require('node:events');
const { readFileSync } = require('node:fs');
const WebSocket = require('ws');

const SIZES = [0, 1, 125, 126, 65535, 65536, 1 << 20];

async function main(url, ca) {
  const options = url.startsWith('wss:') ? { ca: readFileSync(ca) } : {};
  const socket = new WebSocket(url, options);
  await once(socket, 'open');
  assert.strictEqual(socket.extensions, '');
  let messages = 0;
  for (const size of SIZES) {
    for (const message of ['é'.repeat(size), randomBytes(size)]) {
      // The longest text would be twice as long in UTF-8.
      if (message.length === 1 << 20 && typeof message === 'string') continue;
      socket.send(message);
      const [data, isBinary] = await once(socket, 'message');
      assert.strictEqual(isBinary, typeof message !== 'string');
      assert(data.equals(Buffer.from(message)), `${size} bytes differ`);
      messages += 1;
    }
  }
  socket.send('in ', { fin: false });
  socket.send('pieces', { fin: true });
  assert.strictEqual(String((await once(socket, 'message'))[0]), 'in pieces');
  socket.ping('are you there');
  assert.strictEqual(String((await once(socket, 'pong'))[0]), 'are you there');
  socket.close(4321, 'goodbye');
  // The code comes back; a reason need not (RFC 6455 section 5.5.1).
  const [code] = await once(socket, 'close');
  assert.strictEqual(code, 4321);
  console.log(`${messages + 1} messages echoed (ws ${require('ws/package.json').version})`);
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
