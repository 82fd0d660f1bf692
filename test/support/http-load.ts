/**
 * Asks one URL again and again, each time over a new connection, until its standard input ends; then tells in one line of
 * JSON what came of it. Counts from the first answer on. Arguments: URL, how many ask at once, the pause of each in ms.
 */
import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { LoadReport } from './steady-load.ts';

const [url = '', atOnce = '1', pauseMs = '50'] = process.argv.slice(2);
/** Long, because machines stall: late is not failed. */
const patienceMs = 60_000;

let ended = false;
process.stdin.on('end', () => {
  ended = true;
});
process.stdin.resume();

const failures: { at: string; why: string }[] = [];
const answers = new Map<string, number>();
let asked = 0;
let slowestMs = 0;

while (!ended) {
  if (await ask().then(Boolean, () => false)) break;
  await delay(100);
}
console.log('begun');
await Promise.all(Array.from({ length: Number(atOnce) }, () => keepAsking()));
const report: LoadReport = { asked, failures, answers: Object.fromEntries(answers), slowestMs: Math.round(slowestMs) };
console.log(JSON.stringify(report));

async function keepAsking(): Promise<void> {
  while (!ended) {
    const startedAt = performance.now();
    asked++;
    try {
      const text = await ask();
      answers.set(text, (answers.get(text) ?? 0) + 1);
    } catch (error) {
      failures.push({ at: new Date().toISOString(), why: error instanceof Error ? error.message : String(error) });
    }
    slowestMs = Math.max(slowestMs, performance.now() - startedAt);
    await delay(Number(pauseMs));
  }
}

function ask(): Promise<string> {
  return new Promise((resolve, reject) => {
    const call = request(url, { agent: false, headers: { connection: 'close' }, timeout: patienceMs }, (answer) => {
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
    let port: number | undefined;
    call.on('socket', (socket) => {
      socket.on('connect', () => {
        port = socket.localPort;
      });
    });
    call.on('timeout', () => {
      const { bytesWritten = 0, bytesRead = 0 } = call.socket ?? {};
      const got = `${bytesWritten} bytes sent, ${bytesRead} received`;
      const reached = port === undefined ? 'never connected' : `connected from port ${port}, ${got}`;
      call.destroy(new Error(`no answer within ${patienceMs / 1000} s: ${reached}`));
    });
    call.on('error', reject);
    call.end();
  });
}
