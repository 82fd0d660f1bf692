import { describe, expect, it } from '@jest/globals';
import { CriError, criLabel, type RuntimeContainer } from '../../activities/cri/runtime.ts';
import type { Probe } from '../../api/core/probe.ts';
import type { NodePodProbe, NodePodProbeStatus, PodProbe } from '../../api/node-pod-probe/types.ts';
import { type ProbeRun, Prober, type ProberOptions } from '../../daemon/probes/prober.ts';
import { Reporter } from '../../daemon/probes/reporter.ts';
import type { ProbeRuntime } from '../../daemon/probes/runtime.ts';
import { Schedule } from '../../daemon/probes/schedule.ts';
import { Turns } from '../../daemon/probes/turns.ts';
import { KubeError } from '../../kube/failures.ts';
import { nodeList } from '../support/pod-probes.ts';
import { FakeClock } from '../support/probe-clock.ts';

const second = 1_000;

/** The result of a command, by its arguments. */
type Play = (command: string) => { readonly exitCode: number; readonly stdout?: string; readonly stderr?: string };

/** A runtime in memory whose containers are `<pod UID>/<name>`. */
class FakeRuntime implements ProbeRuntime {
  readonly containers = new Map<string, RuntimeContainer & { startedAtMs: number }>();
  readonly commands: string[] = [];
  lists = 0;
  play: Play = () => ({ exitCode: 0, stdout: 'ok' });
  failure: CriError | undefined;
  #created = 0n;

  /** Starts the next instance of a container, and returns its ID. */
  start(podUid: string, name: string, startedAtMs = 0, state: RuntimeContainer['state'] = 'running'): string {
    this.#created += 1n;
    const id = `${podUid}/${name}/${this.#created}`;
    this.containers.set(id, {
      id,
      sandboxId: podUid,
      state,
      createdAtNs: this.#created,
      labels: { [criLabel.podUid]: podUid, [criLabel.containerName]: name },
      annotations: {},
      startedAtMs,
    });
    return id;
  }

  exit(id: string): void {
    const known = this.containers.get(id);
    if (known) this.containers.set(id, { ...known, state: 'exited' });
  }

  async listContainers(): Promise<readonly RuntimeContainer[]> {
    this.lists += 1;
    if (this.failure) throw this.failure;
    return [...this.containers.values()];
  }

  async containerStatus(id: string) {
    const known = this.containers.get(id);
    const startedAtNs = BigInt(known?.startedAtMs ?? 0) * 1_000_000n;
    return known && { id, state: known.state, startedAtNs, exitCode: 0 };
  }

  async execProbe(id: string, command: readonly string[]) {
    this.commands.push(`${id}: ${command.join(' ')}`);
    if (this.failure) throw this.failure;
    return { stdout: '', stderr: '', ...this.play(command.join(' ')) };
  }
}

const exec = (overrides: Partial<Probe> = {}): Probe => ({ exec: { command: ['look'] }, ...overrides });

function podEntry(probes: PodProbe['probes'] = [{ name: 'game#idle', containerName: 'app', probe: exec() }]): PodProbe {
  return { name: 'web-1', namespace: 'shop', uid: 'pod-1', IP: '127.0.0.1', probes };
}

interface Given {
  readonly runtime?: FakeRuntime;
  readonly list?: NodePodProbe;
  readonly clock?: FakeClock;
  readonly options?: Partial<ProberOptions>;
}

/** A daemon that has been running for a day, so that first runs are at once. */
async function probing({
  runtime = new FakeRuntime(),
  list = nodeList([podEntry()]),
  clock = new FakeClock(),
  options,
}: Given = {}) {
  const events: string[] = [];
  const runs: ProbeRun[] = [];
  const told: string[] = [];
  if (!given(runtime)) runtime.start('pod-1', 'app', FakeClock.startMs);
  const prober: Prober = new Prober({
    runtime: () => runtime,
    ipOf: () => undefined,
    say: ({ name }, container, { type, reason, message }) =>
      void events.push([type, reason, name, container, message].join(' ')),
    changed: () => void told.push(verdictsOf(prober.status).join()),
    clock,
    random: () => 0,
    log: { warn: () => undefined },
    observe: (run) => void runs.push(run),
    ...options,
  });
  await clock.pass(24 * 3_600 * second);
  prober.update(list);
  await clock.pass(0);
  const states = () => prober.status?.podProbeStatuses?.flatMap(({ probeStates = [] }) => probeStates) ?? [];
  return { runtime, clock, prober, events, runs, told, states, verdicts: () => verdictsOf(prober.status) };
}

function given(runtime: FakeRuntime): boolean {
  return runtime.containers.size > 0;
}

function verdictsOf(status: NodePodProbeStatus | undefined): readonly string[] {
  return (status?.podProbeStatuses ?? []).flatMap(({ probeStates = [] }) =>
    probeStates.map(({ name, state, message }) => [name, state, message].filter(Boolean).join(' ')),
  );
}

describe('a schedule', () => {
  it('does everything when it is due, with one timer, and only what is still wanted', async () => {
    const clock = new FakeClock();
    const schedule = new Schedule(clock);
    const done: string[] = [];
    const want = (key: string, dueMs: number) => schedule.at(key, dueMs, (due) => void done.push(`${key}@${due}`));
    for (const dueMs of [700, 100, 400, 250, 900, 50, 600]) want(`at-${dueMs}`, dueMs);
    want('taken-back', 300);
    want('moved', 200);
    want('moved', 800);
    schedule.cancel('taken-back');
    await clock.pass(1_000);
    expect(done).toEqual([
      ...['at-50@50', 'at-100@100', 'at-250@250', 'at-400@400', 'at-600@600', 'at-700@700', 'moved@800', 'at-900@900'],
    ]);
    expect(schedule.size).toBe(0);
  });

  it('wakes up once for what is due at about the same time', async () => {
    const clock = new FakeClock();
    const schedule = new Schedule(clock);
    let done = 0;
    for (let index = 0; index < 500; index += 1) schedule.at(`${index}`, 1_000 + (index % 5), () => void done++);
    await clock.pass(2_000);
    expect(done).toBe(500);
    expect(clock.timersSet).toBe(1);
  });
});

describe('turns', () => {
  it('let so many work at once, and the others in order, also after a failure', async () => {
    const turns = new Turns(2);
    const gates = [1, 2, 3, 4].map(() => Promise.withResolvers<void>());
    const begun: number[] = [];
    const all = gates.map((gate, index) =>
      turns
        .take('shop', async () => {
          begun.push(index);
          await gate.promise;
        })
        .catch(() => undefined),
    );
    await Promise.resolve();
    expect([begun, turns.waiting]).toEqual([[0, 1], 2]);
    gates[1]?.reject(new Error('broken'));
    await all[1];
    expect(begun).toEqual([0, 1, 2]);
    for (const gate of gates) gate.resolve();
    await Promise.all(all);
    expect(begun).toEqual([0, 1, 2, 3]);
  });
});

describe('H6: turns are shared by namespaces', () => {
  /** Namespaces that take slots, and free them when the test says so. */
  function wanting(limit: number) {
    const turns = new Turns(limit);
    const running: { readonly namespace: string; readonly end: () => void }[] = [];
    const want = (namespace: string, count: number) => {
      for (let index = 0; index < count; index += 1) {
        void turns.take(namespace, () => new Promise<void>((end) => void running.push({ namespace, end })));
      }
    };
    const end = async (namespace: string) => {
      const index = running.findIndex((one) => one.namespace === namespace);
      running.splice(index, 1)[0]?.end();
      await new Promise((resolve) => setImmediate(resolve));
    };
    const has = (namespace: string) => running.filter((one) => one.namespace === namespace).length;
    return { turns, want, end, has };
  }

  it('one that never ends its runs leaves a quarter of the turns to others, who get them at once', () => {
    const { want, has } = wanting(32);
    want('greedy', 1_000);
    expect(has('greedy')).toBe(24);
    want('shop', 3);
    expect(has('shop')).toBe(3);
    want('game', 5);
    expect(has('game')).toBe(5);
  });

  it('one that has more than a quarter gets no other turn while somebody with less waits', async () => {
    const { want, has, end } = wanting(32);
    want('greedy', 1_000);
    want('shop', 20);
    expect([has('greedy'), has('shop')]).toEqual([24, 8]);
    want('game', 20);
    for (let count = 0; count < 16; count += 1) await end('greedy');
    expect([has('greedy'), has('shop'), has('game')]).toEqual([8, 8, 8]);
  });

  it('whoever has the fewest comes first, and equals one after the other', async () => {
    const { want, has, end } = wanting(4);
    for (const namespace of ['a', 'b', 'c', 'd']) want(namespace, 1);
    for (const namespace of ['e', 'f', 'g']) want(namespace, 2);
    await end('a');
    await end('b');
    await end('c');
    expect([has('e'), has('f'), has('g')]).toEqual([1, 1, 1]);
  });

  it('all turns come back, however they were given out', async () => {
    const { turns, want, has, end } = wanting(8);
    const namespaces = ['a', 'b', 'c', 'd', 'e'];
    for (const [index, namespace] of namespaces.entries()) want(namespace, 3 * index + 1);
    let ended = 0;
    for (let at = 0; namespaces.some((namespace) => has(namespace) > 0); at += 1) {
      const namespace = namespaces[at % namespaces.length] ?? '';
      expect(namespaces.reduce((sum, one) => sum + has(one), 0)).toBeLessThanOrEqual(8);
      if (has(namespace) === 0) continue;
      await end(namespace);
      ended += 1;
    }
    expect([ended, turns.waiting]).toEqual([1 + 4 + 7 + 10 + 13, 0]);
  });
});

describe('the probes of a node', () => {
  it('NPP-23: begin with Unknown, and go on once per period', async () => {
    const { clock, verdicts, told, runtime } = await probing();
    await clock.pass(1);
    expect(told).toEqual(['game#idle Unknown', 'game#idle Succeeded ok']);
    expect(verdicts()).toEqual(['game#idle Succeeded ok']);
    await clock.pass(10 * second);
    expect(runtime.commands).toHaveLength(11);
    expect(told).toHaveLength(2);
  });

  it('NPP-22: begin somewhere within the period right after the start of the daemon', async () => {
    const clock = new FakeClock();
    const runtime = new FakeRuntime();
    runtime.start('pod-1', 'app', FakeClock.startMs - 3_600 * second);
    const prober = new Prober({
      runtime: () => runtime,
      ipOf: () => undefined,
      say: () => undefined,
      changed: () => undefined,
      clock,
      random: () => 0.25,
      log: { warn: () => undefined },
    });
    await clock.pass(5 * second);
    const long = { name: 'game#long', containerName: 'app', probe: exec({ periodSeconds: 60 }) };
    prober.update(nodeList([podEntry([long, { name: 'game#short', containerName: 'app', probe: exec() }])]));
    await clock.pass(0);
    expect(runtime.commands).toHaveLength(1);
    await clock.pass(14 * second);
    const before = runtime.commands.length;
    await clock.pass(second);
    expect(runtime.commands.length - before).toBe(2);
  });

  it('NPP-23: a container that is not there has no state', async () => {
    const runtime = new FakeRuntime();
    runtime.start('pod-2', 'app');
    const { clock, states } = await probing({ runtime });
    await clock.pass(3 * second);
    expect(states()).toEqual([]);
    runtime.start('pod-1', 'app', FakeClock.startMs);
    await clock.pass(2 * second);
    expect(states()).toMatchObject([{ state: 'Succeeded', containerID: 'pod-1/app/2' }]);
  });

  it('NPP-23: the newest instance counts: another one is Unknown, one that does not run has failed at once', async () => {
    const probe = exec({ failureThreshold: 5, successThreshold: 2 });
    const list = nodeList([podEntry([{ name: 'game#idle', containerName: 'app', probe }])]);
    const { clock, runtime, verdicts, told, states } = await probing({ list });
    await clock.pass(3 * second);
    expect(verdicts()).toEqual(['game#idle Succeeded ok']);
    const [first = ''] = runtime.containers.keys();
    runtime.exit(first);
    await clock.pass(second);
    expect(verdicts()).toEqual(['game#idle Failed Container(app) is Non-running']);
    const commands = runtime.commands.length;
    await clock.pass(3 * second);
    expect(runtime.commands).toHaveLength(commands);
    const next = runtime.start('pod-1', 'app', clock.nowMs());
    await clock.pass(second);
    expect(verdicts()).toEqual(['game#idle Unknown']);
    await clock.pass(4 * second);
    expect(states()).toMatchObject([{ state: 'Succeeded', containerID: next }]);
    expect(told.at(-2)).toBe('game#idle Unknown');
  });

  it('NPP-23: waits for initialDelaySeconds, in whole seconds since the start of the instance', async () => {
    const runtime = new FakeRuntime();
    const clock = new FakeClock();
    const dayMs = 24 * 3_600 * second;
    runtime.start('pod-1', 'app', FakeClock.startMs + dayMs - 500);
    const list = nodeList([
      podEntry([{ name: 'game#idle', containerName: 'app', probe: exec({ initialDelaySeconds: 3 }) }]),
    ]);
    await probing({ runtime, clock, list });
    await clock.pass(2_400);
    expect(runtime.commands).toEqual([]);
    await clock.pass(second);
    expect(runtime.commands).toHaveLength(1);
  });

  it('NPP-24: the exit code of a command decides, and its output is the message', async () => {
    const { clock, runtime, verdicts } = await probing();
    runtime.play = () => ({ exitCode: 3, stdout: 'out', stderr: 'err' });
    await clock.pass(2 * second);
    expect(verdicts()).toEqual(['game#idle Failed err']);
    runtime.play = () => ({ exitCode: 0, stdout: 'out', stderr: 'err' });
    await clock.pass(2 * second);
    expect(verdicts()).toEqual(['game#idle Succeeded out']);
  });

  it('NPP-24: a command that takes too long has failed; what the runtime cannot do is no result', async () => {
    const { clock, runtime, verdicts, runs } = await probing();
    await clock.pass(second);
    runtime.play = () => {
      throw new CriError('deadline', 'ExecSync', 'took too long');
    };
    await clock.pass(2 * second);
    expect(verdicts()).toEqual(['game#idle Failed command took longer than 1s']);
    for (const failure of ['notFound', 'answer', 'unreachable', 'unimplemented'] as const) {
      runtime.play = () => {
        throw new CriError(failure, 'ExecSync', 'not possible');
      };
      await clock.pass(second);
      expect(runs.at(-1)?.outcome).toBe('none');
    }
    runtime.failure = new CriError('unreachable', 'ListContainers', 'no runtime');
    await clock.pass(3 * second);
    expect(verdicts()).toEqual(['game#idle Failed command took longer than 1s']);
  });

  it('NPP-24: without any result yet, the message says why there is none', async () => {
    const runtime = new FakeRuntime();
    runtime.play = () => {
      throw new CriError('answer', 'ExecSync', 'no such program: look');
    };
    const { clock, verdicts } = await probing({ runtime });
    await clock.pass(second);
    expect(verdicts()).toEqual(['game#idle Unknown no such program: look']);
  });

  it('NPP-26: a result counts when enough of its kind came in a row', async () => {
    const probe = exec({ successThreshold: 3, failureThreshold: 2 });
    const list = nodeList([podEntry([{ name: 'game#idle', containerName: 'app', probe }])]);
    const runtime = new FakeRuntime();
    const results = [0, 0, 1, 0, 0, 0, 1, 0, 1, 1];
    const seen: string[] = [];
    runtime.play = () => ({ exitCode: results.shift() ?? 1 });
    const { clock, verdicts, runs } = await probing({ runtime, list });
    seen.push(verdicts().join().replace('game#idle ', ''));
    while (results.length > 0) {
      const before = runs.length;
      while (runs.length === before) await clock.pass(100);
      seen.push(verdicts().join().replace('game#idle ', ''));
    }
    const unknown = Array.from({ length: 5 }, () => 'Unknown');
    expect(seen).toEqual([...unknown, 'Succeeded', 'Succeeded', 'Succeeded', 'Succeeded', 'Failed']);
  });

  it('NPP-26: an equal result is told again after ten minutes, and another message at once', async () => {
    const { clock, runtime, told, states } = await probing();
    await clock.pass(second);
    const first = states()[0]?.lastProbeTime ?? '';
    await clock.pass(500 * second);
    expect(told).toHaveLength(2);
    await clock.pass(101 * second);
    expect(told).toHaveLength(3);
    expect(Date.parse(states()[0]?.lastProbeTime ?? '') - Date.parse(first)).toBeGreaterThanOrEqual(600 * second);
    runtime.play = () => ({ exitCode: 0, stdout: 'another word' });
    await clock.pass(2 * second);
    expect(told).toHaveLength(4);
  });

  it('NPP-27: a message is cut to 1024 bytes, between characters', async () => {
    const runtime = new FakeRuntime();
    runtime.play = () => ({ exitCode: 0, stdout: `a${'ü'.repeat(1_000)}` });
    const { clock, states } = await probing({ runtime });
    await clock.pass(second);
    expect(states()[0]?.message).toBe(`a${'ü'.repeat(511)}`);
  });

  it('NPP-28: two probes of one container have a state each', async () => {
    const both = ['idle', 'full'].map((name) => ({ name: `game#${name}`, containerName: 'app', probe: exec() }));
    const { clock, verdicts } = await probing({ list: nodeList([podEntry(both)]) });
    await clock.pass(second);
    expect(verdicts()).toEqual(['game#idle Succeeded ok', 'game#full Succeeded ok']);
  });

  it('NPP-29: says on the pod what has changed, and nothing else', async () => {
    const { clock, runtime, events } = await probing();
    await clock.pass(700 * second);
    expect(events).toEqual(['Normal KruiseProbeSucceeded web-1 app ok']);
    runtime.play = () => ({ exitCode: 1, stderr: 'busy' });
    await clock.pass(2 * second);
    runtime.play = () => ({ exitCode: 0, stdout: 'ok' });
    await clock.pass(2 * second);
    runtime.start('pod-1', 'app', clock.nowMs());
    await clock.pass(3 * second);
    expect(events.slice(1)).toEqual([
      'Normal KruiseProbeFailed web-1 app busy',
      'Normal KruiseProbeSucceeded web-1 app ok',
      'Normal KruiseProbeFailed web-1 app game#idle: Unknown, without output',
      'Normal KruiseProbeSucceeded web-1 app ok',
    ]);
  });

  it('NPP-30: the time of the transition changes with the state only', async () => {
    const { clock, runtime, states } = await probing();
    await clock.pass(second);
    const transition = states()[0]?.lastTransitionTime;
    await clock.pass(10 * second);
    runtime.play = () => ({ exitCode: 0, stdout: 'another word' });
    await clock.pass(2 * second);
    expect(states()[0]?.lastTransitionTime).toBe(transition);
    expect(states()[0]?.lastProbeTime).not.toBe(transition);
    runtime.play = () => ({ exitCode: 1 });
    await clock.pass(2 * second);
    expect(states()[0]?.lastTransitionTime).not.toBe(transition);
  });

  it('NPP-20: a changed probe counts from the next run on, its period at once, and another handler begins anew', async () => {
    const entry = (probe: Probe) => nodeList([podEntry([{ name: 'game#idle', containerName: 'app', probe }])]);
    const { clock, prober, runtime, verdicts } = await probing({ list: entry(exec({ periodSeconds: 100 })) });
    await clock.pass(second);
    prober.update(entry(exec({ periodSeconds: 2 })));
    const before = runtime.commands.length;
    await clock.pass(20 * second);
    expect(runtime.commands.length - before).toBeGreaterThanOrEqual(10);
    expect(verdicts()).toEqual(['game#idle Succeeded ok']);
    runtime.play = (command) => ({ exitCode: command === 'look twice' ? 1 : 0 });
    prober.update(entry({ exec: { command: ['look', 'twice'] }, periodSeconds: 2, failureThreshold: 2 }));
    expect(verdicts()).toEqual(['game#idle Unknown']);
    await clock.pass(3 * second);
    expect(verdicts()).toEqual(['game#idle Failed']);
  });

  it('NPP-20: an answer to a question that nobody asks any more does not count', async () => {
    const answer = Promise.withResolvers<{ exitCode: number; stdout: string; stderr: string }>();
    const runtime = new FakeRuntime();
    const { clock, prober, verdicts } = await probing({ runtime });
    runtime.execProbe = () => {
      runtime.execProbe = () => new Promise(() => undefined);
      return answer.promise;
    };
    await clock.pass(2 * second);
    prober.update(
      nodeList([podEntry([{ name: 'game#idle', containerName: 'app', probe: { exec: { command: ['other'] } } }])]),
    );
    answer.resolve({ exitCode: 1, stdout: '', stderr: 'too late' });
    await clock.pass(0);
    expect(verdicts()).toEqual(['game#idle Unknown']);
  });

  it('NPP-21: what is off the list is probed no more, and its state goes', async () => {
    const { clock, prober, runtime, verdicts, told } = await probing();
    await clock.pass(second);
    prober.update(nodeList([]));
    expect(verdicts()).toEqual([]);
    expect(told.at(-1)).toBe('');
    const before = runtime.commands.length;
    await clock.pass(10 * second);
    expect(runtime.commands).toHaveLength(before);
    prober.update(undefined);
    expect(prober.status).toBeUndefined();
  });

  it('NPP-31: a daemon that takes over goes on with what the one before it had found out about this instance', async () => {
    const before = await probing();
    await before.clock.pass(5 * second);
    const list = nodeList([podEntry()], before.prober.status);
    before.prober.stop();
    const { runtime } = before;

    const after = await probing({ runtime, list });
    expect(after.told).toEqual([]);
    runtime.play = () => ({ exitCode: 1 });
    await after.clock.pass(2 * second);
    expect(after.told).toEqual(['game#idle Failed']);
    after.prober.stop();

    runtime.start('pod-1', 'app', FakeClock.startMs);
    runtime.play = () => ({ exitCode: 0, stdout: 'ok' });
    const restarted = await probing({ runtime, list });
    await restarted.clock.pass(2 * second);
    expect(restarted.told).toEqual(['game#idle Unknown', 'game#idle Succeeded ok']);
    const other = nodeList(
      [podEntry([{ name: 'game#idle', containerName: 'app', probe: { exec: { command: ['x'] } } }])],
      list.status,
    );
    expect((await probing({ runtime, list: other })).told[0]).toBe('game#idle Unknown');
  });

  it('NPP-31a: a probe that waits for its first run is Unknown at once', async () => {
    const clock = new FakeClock();
    const runtime = new FakeRuntime();
    runtime.start('pod-1', 'app', FakeClock.startMs - 3_600 * second);
    const prober: Prober = new Prober({
      runtime: () => runtime,
      ipOf: () => undefined,
      say: () => undefined,
      changed: () => undefined,
      clock,
      random: () => 0.9,
      log: { warn: () => undefined },
    });
    const probes = [{ name: 'game#idle', containerName: 'app', probe: exec({ periodSeconds: 600 }) }];
    prober.update(nodeList([podEntry(probes)]));
    await clock.pass(0);
    expect(verdictsOf(prober.status)).toEqual(['game#idle Unknown']);
    expect(runtime.commands).toEqual([]);
    await clock.pass(600 * second);
    expect(verdictsOf(prober.status)).toEqual(['game#idle Succeeded ok']);
    expect(runtime.commands).toHaveLength(1);
  });

  it('NPP-31a: a runtime that fails in an unforeseen way before the first run is reported, and ends no process', async () => {
    const clock = new FakeClock();
    const runtime = new FakeRuntime();
    runtime.start('pod-1', 'app', FakeClock.startMs - 3_600 * second);
    const warnings: unknown[] = [];
    let broken = true;
    const prober: Prober = new Prober({
      runtime: () => {
        if (broken) throw new TypeError('answer without containers');
        return runtime;
      },
      ipOf: () => undefined,
      say: () => undefined,
      changed: () => undefined,
      clock,
      random: () => 0.9,
      log: { warn: (...line: unknown[]) => void warnings.push(line) },
    });
    prober.update(
      nodeList([podEntry([{ name: 'game#idle', containerName: 'app', probe: exec({ periodSeconds: 600 }) }])]),
    );
    await clock.pass(0);
    expect(JSON.stringify(warnings)).toContain('probe');
    broken = false;
    await clock.pass(600 * second);
    expect(verdictsOf(prober.status)).toEqual(['game#idle Succeeded ok']);
  });

  it('NPP-31a: another handler is Unknown at once, also while no result counts yet', async () => {
    const { clock, prober, verdicts, told } = await probing();
    await clock.pass(second);
    const other = exec({ exec: { command: ['other'] }, successThreshold: 3 });
    prober.update(nodeList([podEntry([{ name: 'game#idle', containerName: 'app', probe: other }])]));
    expect(told.at(-1)).toBe('game#idle Unknown');
    await clock.pass(second);
    expect(verdicts()).toEqual(['game#idle Unknown']);
  });

  it.each([0, 0.3, 0.7, 0.999])('NPP-33: run exactly once in each period since the first run (%d)', async (share) => {
    const { clock, runtime } = await probing({ options: { random: () => share } });
    await clock.pass(second - 1);
    expect(runtime.commands).toHaveLength(1);
    for (let period = 2; period <= 30; period += 1) {
      await clock.pass(second);
      expect(runtime.commands).toHaveLength(period);
    }
  });

  it('NPP-33: another period counts from the last run, so there is no extra one', async () => {
    const entry = (periodSeconds: number) =>
      nodeList([podEntry([{ name: 'game#idle', containerName: 'app', probe: exec({ periodSeconds }) }])]);
    const { clock, prober, runtime } = await probing({ list: entry(10) });
    await clock.pass(second);
    prober.update(entry(5));
    await clock.pass(3 * second);
    expect(runtime.commands).toHaveLength(1);
    await clock.pass(2 * second);
    expect(runtime.commands).toHaveLength(2);
  });

  it('NPP-33: what changes is told with the run that sees it, the first one included', async () => {
    const { clock, runtime, told } = await probing({ options: { random: () => 0.999 } });
    await clock.pass(1);
    for (let turn = 0; turn < 10; turn += 1) {
      runtime.play = () => ({ exitCode: turn % 2, stdout: `${turn}`, stderr: `${turn}` });
      await clock.pass(1_500);
      expect(told.at(-1)).toBe(`game#idle ${turn % 2 === 0 ? 'Succeeded' : 'Failed'} ${turn}`);
    }
  });

  it('NPP-32: a runtime that is away leaves the last results as they are', async () => {
    const { clock, runtime, verdicts } = await probing();
    await clock.pass(second);
    runtime.failure = new CriError('unreachable', 'ListContainers', 'gone');
    await clock.pass(3_600 * second);
    expect(verdicts()).toEqual(['game#idle Succeeded ok']);
  });

  it('tells everything to another list of the node', async () => {
    const { clock, prober, told } = await probing();
    await clock.pass(second);
    const list = nodeList([podEntry()]);
    prober.update({ ...list, metadata: { ...list.metadata, uid: 'another' } });
    expect(told.at(-1)).toBe('game#idle Succeeded ok');
    expect(prober.listUid).toBe('another');
  });

  it('ask the runtime for its containers no more often than twice a second, however many they are', async () => {
    const runtime = new FakeRuntime();
    const pods = Array.from({ length: 100 }, (_, index): PodProbe => {
      runtime.start(`uid-${index}`, 'app', FakeClock.startMs);
      const probes = ['a', 'b'].map((name) => ({ name: `game#${name}`, containerName: 'app', probe: exec() }));
      return { name: `web-${index}`, namespace: 'shop', uid: `uid-${index}`, probes };
    });
    let at = 0;
    const random = () => {
      at = (at + 0.618) % 1;
      return at;
    };
    const { clock, runs } = await probing({ runtime, list: nodeList(pods), options: { random } });
    await clock.pass(5 * second);
    const [lists, before] = [runtime.lists, runs.length];
    await clock.pass(10 * second);
    expect(runs.length - before).toBe(2_000);
    expect(runtime.lists - lists).toBeLessThanOrEqual(21);
  });

  it('go on with their rhythm after the machine has stalled, without making up for what was missed', async () => {
    const { clock, runs } = await probing();
    await clock.pass(5 * second);
    const before = runs.length;
    clock.stall(60 * second);
    await clock.pass(10 * second);
    expect(runs.length - before).toBeLessThanOrEqual(12);
    expect(runs.length - before).toBeGreaterThanOrEqual(10);
    expect(Math.max(...runs.map(({ lagMs }) => lagMs))).toBeGreaterThanOrEqual(59_000);
  });

  it('run no more than so many commands at once', async () => {
    const runtime = new FakeRuntime();
    let running = 0;
    let most = 0;
    runtime.execProbe = async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      return { exitCode: 0, stdout: '', stderr: '' };
    };
    const probes = Array.from({ length: 20 }, (_, index) => ({
      name: `game#${index}`,
      containerName: 'app',
      probe: exec(),
    }));
    const limits = { exec: 3, network: 1, long: 1, loud: 1 };
    const { clock, verdicts } = await probing({ runtime, list: nodeList([podEntry(probes)]), options: { limits } });
    await clock.pass(3 * second);
    expect(most).toBe(3);
    expect(verdicts()).toHaveLength(20);
  });
});

describe('H6: probes of one namespace', () => {
  const slow = (index: number, timeoutSeconds: number): PodProbe => ({
    ...{ name: `slow-${index}`, namespace: 'greedy', uid: `slow-${index}`, IP: '127.0.0.1' },
    probes: [{ name: 'slow#never', containerName: 'app', probe: { exec: { command: ['never'] }, timeoutSeconds } }],
  });

  /** A hundred pods whose commands never end, and one pod of another namespace. */
  async function besideSlow(timeoutSeconds: number) {
    const runtime = new FakeRuntime();
    const pods = Array.from({ length: 100 }, (_, index) => slow(index, timeoutSeconds));
    for (const { uid } of pods) runtime.start(uid, 'app', FakeClock.startMs);
    runtime.start('pod-1', 'app', FakeClock.startMs);
    const exec = runtime.execProbe.bind(runtime);
    let open = 0;
    runtime.execProbe = async (id, command) => {
      if (command[0] !== 'never') return await exec(id, command);
      open += 1;
      return await new Promise(() => undefined);
    };
    const { clock, states } = await probing({ runtime, list: nodeList([...pods, podEntry()]) });
    await clock.pass(10 * second);
    const asked = runtime.commands.filter((command) => command.startsWith('pod-1/')).length;
    return { asked, open: () => open, states };
  }

  it('that never end do not keep the probes of another from running once per period', async () => {
    const { asked, open } = await besideSlow(1);
    expect(asked).toBeGreaterThanOrEqual(10);
    expect(open()).toBe(24);
  });

  it('that may take long have turns of their own', async () => {
    const { asked, open } = await besideSlow(2 ** 31 - 1);
    expect(asked).toBeGreaterThanOrEqual(10);
    expect(open()).toBe(24);
  });

  it('M11: that print much are in memory four at a time, once that is known of them', async () => {
    const runtime = new FakeRuntime();
    const pods = Array.from({ length: 60 }, (_, index) => slow(index, 1));
    for (const { uid } of pods) runtime.start(uid, 'app', FakeClock.startMs);
    let open = 0;
    let most = 0;
    runtime.execProbe = async () => {
      open += 1;
      most = Math.max(most, open);
      await new Promise((resolve) => setImmediate(resolve));
      open -= 1;
      return { exitCode: 0, stdout: '', stderr: 'x'.repeat(4_096) };
    };
    const { clock, verdicts } = await probing({ runtime, list: nodeList(pods) });
    await clock.pass(900);
    expect(verdicts().filter((verdict) => verdict.includes('Succeeded'))).toHaveLength(60);
    expect(most).toBeGreaterThan(4);
    most = 0;
    await clock.pass(5 * second);
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(4);
  });

  it('that wait for a turn show that there is no result yet', async () => {
    const { states } = await besideSlow(1);
    expect(states()).toHaveLength(101);
    expect(states().filter(({ state }) => state === 'Unknown')).toHaveLength(100);
  });
});

describe('the reports of a node', () => {
  const status = (name: string): NodePodProbeStatus => ({ podProbeStatuses: [{ name, namespace: '', uid: '' }] });

  function reporting(meet: (attempt: number) => void = () => undefined) {
    const clock = new FakeClock();
    const written: string[] = [];
    const now = { status: status('first') as NodePodProbeStatus | undefined };
    let attempts = 0;
    const reporter = new Reporter({
      status: () => now.status,
      clock,
      log: { warn: () => undefined },
      write: async ({ podProbeStatuses }) => {
        attempts += 1;
        meet(attempts);
        written.push(podProbeStatuses?.[0]?.name ?? '');
      },
    });
    return { clock, written, reporter, now, attempts: () => attempts };
  }

  it('NPP-29: go out at once, what follows shortly goes out together, and nothing when there is nothing', async () => {
    const { clock, written, reporter, now } = reporting();
    reporter.tell();
    await clock.pass(0);
    expect(written).toEqual(['first']);
    for (const name of ['second', 'third', 'fourth']) {
      now.status = status(name);
      reporter.tell();
    }
    await clock.pass(10 * second);
    expect(written).toEqual(['first', 'fourth']);
  });

  it('NPP-29: are tried again from half a second to nearly a minute, and then say what is true by then', async () => {
    const isAway = { yes: true };
    const { clock, written, reporter, now, attempts } = reporting(() => {
      if (isAway.yes) throw new KubeError({ status: 0, message: 'nobody answers' });
    });
    reporter.tell();
    await clock.pass(600 * second);
    expect(attempts()).toBeGreaterThan(12);
    expect(attempts()).toBeLessThan(20);
    expect(reporter.trouble).toBe('nobody answers');
    now.status = status('last');
    isAway.yes = false;
    await clock.pass(60 * second);
    expect(written).toEqual(['last']);
    expect(reporter.trouble).toBeUndefined();
  });

  it('wait as long as the API server asks for', async () => {
    const { clock, reporter, attempts } = reporting((attempt) => {
      if (attempt === 1) throw new KubeError({ status: 429, message: 'slowly', retryAfterSeconds: 30 });
    });
    reporter.tell();
    await clock.pass(29 * second);
    expect(attempts()).toBe(1);
    await clock.pass(2 * second);
    expect(attempts()).toBe(2);
  });

  it('are given up for a list that is gone, until there is another', async () => {
    const { clock, reporter, attempts, now } = reporting((attempt) => {
      if (attempt === 1) throw new KubeError({ status: 404, message: 'not found', reason: 'NotFound' });
    });
    reporter.tell();
    await clock.pass(600 * second);
    expect(attempts()).toBe(1);
    now.status = undefined;
    reporter.tell();
    await clock.pass(second);
    expect(attempts()).toBe(1);
  });

  it('are completed when the daemon ends in order, and given up when that takes too long', async () => {
    const { clock, written, reporter, now } = reporting();
    reporter.tell();
    await clock.pass(0);
    now.status = status('last');
    reporter.tell();
    await reporter.end(new AbortController().signal);
    expect(written).toEqual(['first', 'last']);

    const away = reporting(() => {
      throw new KubeError({ status: 0, message: 'nobody answers' });
    });
    away.reporter.tell();
    await away.clock.pass(0);
    await away.reporter.end(AbortSignal.abort());
    expect(away.written).toEqual([]);
  });
});
