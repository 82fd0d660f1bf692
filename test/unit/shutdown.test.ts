import { EventEmitter } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { pino } from 'pino';
import { shutdownOnSignals } from '../../process/shutdown.ts';

/** A process that receives signals and records its exit code. */
function fakeProcess() {
  const emitter = new EventEmitter();
  const exits: (number | string | null | undefined)[] = [];
  let exited: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => {
    exited = resolve;
  });
  const self = {
    on: (event: string, listener: (...args: unknown[]) => void) => void emitter.on(event, listener),
    exit: (code?: number | string | null) => {
      exits.push(code);
      exited();
    },
  } as unknown as Pick<NodeJS.Process, 'on' | 'exit'>;
  return { self, exits, ended, emit: (event: string, argument?: unknown) => emitter.emit(event, argument) };
}

function started(allStepsMs?: number) {
  const fake = fakeProcess();
  const lines: string[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) });
  const options = { log, process: fake.self };
  const shutdown = shutdownOnSignals(allStepsMs === undefined ? options : { ...options, allStepsMs });
  return { ...fake, shutdown, lines };
}

const never = () => new Promise<void>(() => undefined);

describe('shutdownOnSignals', () => {
  it('runs the steps in order, each after the one before is done, and exits with 0', async () => {
    const { shutdown, emit, exits, ended } = started();
    const order: string[] = [];
    for (const name of ['health', 'worker', 'client']) {
      shutdown.add({
        name,
        async stop() {
          order.push(`${name} begins`);
          await new Promise(setImmediate);
          order.push(`${name} ends`);
        },
      });
    }
    emit('SIGTERM');
    await ended;
    expect(order).toEqual(['health', 'worker', 'client'].flatMap((name) => [`${name} begins`, `${name} ends`]));
    expect(exits).toEqual([0]);
  });

  it('tells everybody at once that the end has begun, and why', async () => {
    const { shutdown, ended } = started();
    expect(shutdown.signal.aborted).toBe(false);
    void shutdown.begin('lost the lease', 1);
    expect(shutdown.signal.reason).toEqual(new Error('lost the lease'));
    await ended;
  });

  it('goes on after a step that fails or takes too long', async () => {
    const { shutdown, emit, exits, ended, lines } = started();
    const order: string[] = [];
    shutdown.add({ name: 'broken', stop: () => Promise.reject(new Error('broken pipe')) });
    shutdown.add({ name: 'stuck', stop: never, deadlineMs: 5 });
    shutdown.add({ name: 'last', stop: () => void order.push('last') });
    emit('SIGINT');
    await ended;
    expect(order).toEqual(['last']);
    expect(exits).toEqual([0]);
    expect(lines.join('')).toMatch(/Cannot stop broken gracefully[\s\S]*Cannot stop stuck gracefully/);
  });

  it('ends in time though every step is stuck, giving each that is left its turn', async () => {
    const { shutdown, emit, ended } = started(20);
    const called: string[] = [];
    for (const name of ['a', 'b', 'c']) {
      shutdown.add({
        name,
        stop() {
          called.push(name);
          return never();
        },
      });
    }
    emit('SIGTERM');
    await ended;
    expect(called).toEqual(['a', 'b', 'c']);
  });

  it('exits at once on a second signal', () => {
    const { shutdown, emit, exits } = started(20);
    shutdown.add({ name: 'stuck', stop: never });
    emit('SIGTERM');
    expect(exits).toEqual([]);
    emit('SIGINT');
    expect(exits).toEqual([1]);
  });

  it('keeps the exit code of the first reason', async () => {
    const { shutdown, exits } = started();
    const first = shutdown.begin('lost the lease', 1);
    expect(shutdown.begin('asked to', 0)).toBe(first);
    await first;
    expect(exits).toEqual([1]);
  });

  it.each(['unhandledRejection', 'uncaughtException'])('logs an %s and exits with 1', (event) => {
    const { emit, exits, lines } = started();
    emit(event, new Error('a bug'));
    expect(exits).toEqual([1]);
    expect(lines.join('')).toContain('a bug');
  });
});
