/**
 * Requests URLs repeatedly, each time over a new connection, until its standard input ends. Prints JSON lines
 * (`LoadLine`): that each URL has answered, which requests are not connected after some seconds, and at last the results
 * of all. Counts from then on. Arguments: number of concurrent requests of each URL, pause of each in ms, least number of
 * requests, URLs.
 */
import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { LoadLine } from './steady-load.ts';

const [atOnce = '1', pauseMs = '50', atLeast = '0', ...urls] = process.argv.slice(2);
/** Long, because machines may stall: late is not failed. */
const patienceMs = 60_000;
/** The first retransmissions of a lost SYN follow after 1, 3 and 7 seconds. */
const stuckMs = 8_000;

let ended = false;
process.stdin.on('end', () => {
  ended = true;
});
process.stdin.resume();

const failures: { at: string; why: string }[] = [];
const answers = new Map<string, number>();
let asked = 0;
let slowestMs = 0;

for (const url of urls) await untilServed(url.replace(/\?.*/, ''));
say({ kind: 'begun' });
await Promise.all(urls.flatMap((url) => Array.from({ length: Number(atOnce) }, () => keepAsking(url))));
say({
  kind: 'ended',
  report: { asked, failures, answers: Object.fromEntries(answers), slowestMs: Math.round(slowestMs) },
});

/**
 * Waits for the first answer. A connection that is tried before kube-proxy knows the Service stays in the connection
 * table without a translation for two minutes, and blocks every later one from the same port. So these attempts use
 * ports that the kernel does not assign by itself (`net.ipv4.ip_local_port_range` begins at 32768).
 */
async function untilServed(url: string): Promise<void> {
  for (let localPort = 20_000; !ended; localPort = localPort < 29_999 ? localPort + 1 : 20_000) {
    const served = await ask(url, { localPort, timeoutMs: 2_000 }).then(Boolean, () => false);
    if (served) return;
    await delay(100);
  }
}

async function keepAsking(url: string): Promise<void> {
  while (!ended || asked < Number(atLeast)) {
    const startedAt = performance.now();
    asked++;
    try {
      const text = await ask(url, { timeoutMs: patienceMs });
      answers.set(text, (answers.get(text) ?? 0) + 1);
    } catch (error) {
      failures.push({ at: new Date().toISOString(), why: error instanceof Error ? error.message : String(error) });
    }
    slowestMs = Math.max(slowestMs, performance.now() - startedAt);
    await delay(Number(pauseMs));
  }
}

function ask(url: string, { localPort, timeoutMs }: { localPort?: number; timeoutMs: number }): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = {
      agent: false,
      headers: { connection: 'close' },
      timeout: timeoutMs,
      ...(localPort !== undefined && { localPort }),
    } as const;
    const call = request(url, options, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (chunk: string) => {
        text += chunk;
      });
      answer.on('end', () => {
        if (answer.statusCode === 200) resolve(text.trim());
        else reject(new Error(`answer ${answer.statusCode}`));
      });
      answer.on('error', reject);
    });
    let connected = false;
    /** The local port is known as soon as the first packet has been sent. */
    let from = '';
    call.on('socket', (socket) => {
      const late = setTimeout(() => {
        from = ` from port ${socket.localPort}`;
        if (socket.localPort !== undefined)
          say({ kind: 'stuck', at: new Date().toISOString(), port: socket.localPort });
      }, stuckMs);
      socket.on('connect', () => {
        connected = true;
        from = ` from port ${socket.localPort}`;
        clearTimeout(late);
      });
      socket.on('close', () => clearTimeout(late));
    });
    call.on('timeout', () => {
      const { bytesWritten = 0, bytesRead = 0 } = call.socket ?? {};
      const got = `${bytesWritten} bytes sent, ${bytesRead} received`;
      const reached = connected ? `connected${from}, ${got}` : `never connected${from}`;
      call.destroy(new Error(`no answer within ${timeoutMs / 1000} s: ${reached}`));
    });
    call.on('error', reject);
    call.end();
  });
}

function say(line: LoadLine): void {
  console.log(JSON.stringify(line));
}
