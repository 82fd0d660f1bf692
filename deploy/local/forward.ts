// Part `ports`: forwards ports of 127.0.0.1 to the control plane's address, to which only this machine has a route.
// Arguments: LOCAL-PORT=ADDRESS:PORT ...
import { connect, createServer } from 'node:net';

for (const rule of process.argv.slice(2)) {
  const [local, address, port] = rule.split(/[=:]/);
  if (!local || !address || !port) throw new Error(`Cannot forward "${rule}": must be LOCAL-PORT=ADDRESS:PORT`);
  // Half-open, so that a client may end its request and still read the answer.
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    const upstream = connect({ host: address, port: Number(port), allowHalfOpen: true, noDelay: true });
    client.pipe(upstream);
    upstream.pipe(client);
    client.on('error', () => upstream.destroy());
    upstream.on('error', () => client.destroy());
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  });
  server.on('error', (error) => {
    console.error(`Cannot listen on 127.0.0.1:${local}: ${error.message}`);
    process.exit(1);
  });
  server.listen({ host: '127.0.0.1', port: Number(local) }, () =>
    console.log(`127.0.0.1:${local} -> ${address}:${port}`),
  );
}
