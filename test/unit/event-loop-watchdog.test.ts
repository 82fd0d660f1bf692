import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';

const watchdog = new URL('../../webhook/event-loop-watchdog.ts', import.meta.url).href;
const children: ChildProcess[] = [];

interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly text: string;
}

/** A process with a watchdog that allows 300 ms, which then runs the script. */
async function run(script: string, whileRunning?: (child: ChildProcess) => Promise<void>): Promise<Ended> {
  const source = `
    const { watchEventLoop } = await import(${JSON.stringify(watchdog)});
    const watch = watchEventLoop({ role: 'webhook', mostCpuMs: 300, lookMs: 50 });
    const usedMs = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1000; };
    const spin = (ms) => { for (const end = usedMs() + ms; usedMs() < end; ); };
    await new Promise((resolve) => setTimeout(resolve, 300)); // the thread has started
    process.stderr.write('begun');
    ${script}`;
  const flags = ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', source];
  const child = spawn(process.execPath, flags);
  children.push(child);
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  const closed = once(child, 'close');
  await Promise.race([once(child.stderr, 'data'), closed]);
  await whileRunning?.(child);
  const [code, signal] = await closed;
  return { code, signal, text };
}

afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

describe('the watchdog of the event loop', () => {
  it('ends a process that computes without returning to its event loop, and says so', async () => {
    const { signal, text } = await run('for (;;) ;');
    expect(signal).toBe('SIGKILL');
    expect(JSON.parse(text)).toMatchObject({
      level: 'fatal',
      role: 'webhook',
      msg: expect.stringContaining('has stood still'),
    });
  });

  it('leaves a process alone that computes all the time and returns in between', async () => {
    const busy =
      'for (let turn = 0; turn < 20; turn++) { spin(60); await new Promise((done) => setTimeout(done, 1)); }';
    expect(await run(busy)).toEqual({ code: 0, signal: null, text: '' });
  });

  it('leaves a process alone that stands still without using the processor', async () => {
    const wait = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500);';
    expect(await run(wait)).toEqual({ code: 0, signal: null, text: '' });
  });

  it('leaves a process alone whose machine stalls while it computes', async () => {
    const ended = await run('spin(150);', async (child) => {
      child.kill('SIGSTOP');
      await sleep(1_500);
      child.kill('SIGCONT');
    });
    expect(ended).toEqual({ code: 0, signal: null, text: '' });
  });

  it('keeps no process from ending, and can be stopped', async () => {
    expect(await run('')).toMatchObject({ code: 0 });
    expect(await run('await watch.stop(); spin(600);')).toEqual({ code: 0, signal: null, text: '' });
  });
});
