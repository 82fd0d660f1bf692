// Mutual exclusion between processes. The lock is a listening socket with an abstract name: the kernel grants it to one
// process and releases it when that process dies, so a lock can never be left behind.
import { createHash } from 'node:crypto';
import { createServer, type Server } from 'node:net';
import { pause } from './wait.ts';

/** Runs `work` while no other process on this machine holds the lock `name`; reports once when it has to wait. */
export async function withLock<T>(name: string, work: () => Promise<T>, onWait?: () => void): Promise<T> {
  const address = `\0windlass-${createHash('sha256').update(name).digest('hex').slice(0, 32)}`;
  let server = await tryListen(address);
  if (!server) onWait?.();
  while (!server) {
    await pause(200);
    server = await tryListen(address);
  }
  try {
    return await work();
  } finally {
    server.close();
  }
}

function tryListen(address: string): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(undefined);
      else reject(error);
    });
    server.listen(address, () => resolve(server));
  });
}
