import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { engineSilent, engineStuck } from '../../api/engine/engine-trouble.ts';
import { changedSignal, searchAttributes } from '../../api/engine/operations.ts';
import { Starter, type StarterOptions, type WantedOperation } from '../../watcher/starter.ts';
import { type Gate, newGate } from '../support/gate.ts';

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
});

afterEach(() => {
  jest.useRealTimers();
});

async function elapse(ms = 0): Promise<void> {
  await jest.advanceTimersByTimeAsync(ms);
}

function wanted(overrides: Partial<WantedOperation> = {}): WantedOperation {
  return {
    workflowId: 'restart-containers/pod-1',
    workflowType: 'restartContainers',
    taskQueue: 'cluster',
    argument: { request: 'crr-a' },
    change: { generation: 1 },
    inputs: 'first',
    summary: 'restart containers of pod shop/web',
    about: { kind: 'ContainerRecreateRequest', namespace: 'shop', name: 'crr-a', node: 'node-1' },
    ...overrides,
  };
}

/** How Temporal behaves: it answers, it fails, or it does not answer until the gate opens. */
type Behaviour = 'answers' | 'fails' | Gate;

/** A Temporal client that records its calls. */
class FakeTemporal {
  readonly starts: { readonly type: string; readonly options: Record<string, unknown> }[] = [];
  readonly signals: (readonly [string, string, unknown])[] = [];
  /** The workflow IDs that were signalled, whether or not there was a run. */
  readonly asked: string[] = [];
  readonly terminated: (readonly [string, string | undefined, string])[] = [];
  readonly running = new Set<string>();
  /** Runs that have ended and that lists still show. */
  readonly listedLate = new Set<string>();
  behaviour: Behaviour = 'answers';
  /** Why Temporal rejects a start as invalid; false: it does not. */
  rejects: (options: Record<string, unknown>) => string | false = () => false;
  /** Only of the visibility store. */
  visibility: 'answers' | 'fails' = 'answers';
  lists = 0;

  readonly client = {
    workflow: {
      signalWithStart: async (type: string, options: Record<string, unknown>) => {
        await this.#behave();
        const why = this.rejects(options);
        if (why !== false) {
          const cause = Object.assign(new Error(`3 INVALID_ARGUMENT: ${why}`), { code: 3 });
          throw new Error('Failed to signalWithStart Workflow', { cause });
        }
        this.starts.push({ type, options });
        this.running.add(String(options.workflowId));
      },
      getHandle: (workflowId: string, runId?: string) => ({
        signal: async (name: string, payload: unknown) => {
          this.asked.push(workflowId);
          await this.#behave();
          if (!this.running.has(workflowId)) {
            throw Object.assign(new Error('no such workflow'), { name: 'WorkflowNotFoundError' });
          }
          this.signals.push([workflowId, name, payload]);
        },
        terminate: async (reason: string) => {
          await this.#behave();
          this.terminated.push([workflowId, runId, reason]);
          if (!this.running.delete(workflowId)) {
            throw Object.assign(new Error('no such workflow'), { name: 'WorkflowNotFoundError' });
          }
        },
        describe: async () => {
          await this.#behave();
          throw Object.assign(new Error('no such workflow'), { name: 'WorkflowNotFoundError' });
        },
      }),
      list: () => this.#list(),
    },
  } as unknown as Pick<Client, 'workflow'>;

  async *#list() {
    this.lists += 1;
    await this.#behave();
    if (this.visibility === 'fails') throw new Error('13 INTERNAL: no such table');
    for (const workflowId of [...this.running, ...this.listedLate]) yield { workflowId };
  }

  async #behave(): Promise<void> {
    if (this.behaviour === 'fails') throw new Error('14 UNAVAILABLE');
    if (this.behaviour !== 'answers') await this.behaviour.opened;
  }
}

function starterOn(temporal: FakeTemporal, overrides: Partial<StarterOptions> = {}) {
  const silence: boolean[] = [];
  const errors: string[] = [];
  const starter = new Starter({
    build: 'test',
    client: temporal.client,
    mayStart: () => true,
    onError: (workflowId) => void errors.push(workflowId),
    onSilence: (silent) => void silence.push(silent),
    silentAfterMs: 60_000,
    ...overrides,
  });
  return { starter, silence, errors };
}

/** A starter whose first start waits for the gate. */
async function startingBehindGate() {
  const temporal = new FakeTemporal();
  const { starter } = starterOn(temporal);
  const gate = newGate();
  temporal.behaviour = gate;
  starter.want(wanted());
  await elapse();
  return { temporal, starter, gate };
}

describe('Starter', () => {
  it('starts what is wanted once, under its ID, with the names that people search for', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    starter.want(wanted());
    expect(starter.isSent('restart-containers/pod-1')).toBe(false);
    await elapse();
    starter.want(wanted());
    await elapse(60_000);
    expect(starter.isSent('restart-containers/pod-1')).toBe(true);
    expect(temporal.starts).toMatchObject([
      {
        type: 'restartContainers',
        options: {
          workflowId: 'restart-containers/pod-1',
          taskQueue: 'cluster',
          args: [{ request: 'crr-a' }],
          signal: changedSignal,
          signalArgs: [{ generation: 1 }],
          workflowIdReusePolicy: 'ALLOW_DUPLICATE',
          staticSummary: 'restart containers of pod shop/web',
          memo: { kind: 'ContainerRecreateRequest', namespace: 'shop', name: 'crr-a', build: 'test' },
          searchAttributes: { WindlassName: ['crr-a'], WindlassNode: ['node-1'] },
        },
      },
    ]);
    expect(temporal.starts).toHaveLength(1);
  });

  it('names the operation that has caused it, and none where none has', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    const { about } = wanted();
    starter.want(wanted());
    starter.want(wanted({ workflowId: 'caused', about: { ...about, cause: 'roll-out/set-1' } }));
    await elapse();
    const names = temporal.starts.map(({ options }) => Object.keys(options.searchAttributes as object));
    expect(names.map((all) => all.includes(searchAttributes.cause))).toEqual([false, true]);
    expect(temporal.starts[1]?.options.searchAttributes).toMatchObject({ WindlassCause: ['roll-out/set-1'] });
  });

  it('starts without the cause where Temporal does not know that attribute, and retries any other rejection', async () => {
    const temporal = new FakeTemporal();
    const { starter, errors } = starterOn(temporal);
    const about = { ...wanted().about, cause: 'roll-out/set-1' };
    temporal.rejects = ({ searchAttributes: given }) =>
      searchAttributes.cause in (given as object) &&
      'Namespace default has no mapping defined for search attribute WindlassCause';
    starter.want(wanted({ about }));
    await elapse();
    expect([errors, temporal.starts.length]).toEqual([[], 1]);
    expect(temporal.starts[0]?.options.searchAttributes).toMatchObject({ WindlassName: ['crr-a'] });

    temporal.rejects = () => 'search attribute WindlassName is not defined';
    starter.want(wanted({ workflowId: 'other', about }));
    await elapse();
    expect([errors, temporal.starts.length]).toEqual([['other'], 1]);
    temporal.rejects = () => false;
    await elapse(60_000);
    expect(temporal.starts[1]?.options.searchAttributes).toMatchObject({ WindlassCause: ['roll-out/set-1'] });
  });

  it('tells the operation again when its inputs change, and only of the last of several changes', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    starter.want(wanted());
    await elapse();
    for (const inputs of ['second', 'third']) starter.want(wanted({ inputs, change: inputs }));
    await elapse();
    expect(temporal.starts.map(({ options }) => options.signalArgs)).toEqual([[{ generation: 1 }], ['third']]);
  });

  it('does not lose a change that comes while it is telling of the one before', async () => {
    const { temporal, starter, gate } = await startingBehindGate();
    starter.want(wanted({ inputs: 'second', change: 'second' }));
    temporal.behaviour = 'answers';
    gate.open();
    await elapse();
    expect(temporal.starts.map(({ options }) => options.signalArgs)).toEqual([[{ generation: 1 }], ['second']]);
    expect(starter.isSent('restart-containers/pod-1')).toBe(true);
  });

  it('does not tell twice when the same is wanted again meanwhile', async () => {
    const { temporal, starter, gate } = await startingBehindGate();
    starter.want(wanted());
    gate.open();
    await elapse(60_000);
    expect(temporal.starts).toHaveLength(1);
  });

  it('tries again while Temporal is away, ever more slowly, until it answers', async () => {
    const temporal = new FakeTemporal();
    const { starter, errors } = starterOn(temporal);
    temporal.behaviour = 'fails';
    starter.want(wanted());
    await elapse(10_000);
    const early = errors.length;
    await elapse(600_000);
    expect(early).toBeGreaterThan(3);
    expect(errors.length - early).toBeLessThan(60);
    temporal.behaviour = 'answers';
    await elapse(30_000);
    expect(temporal.starts).toHaveLength(1);
  });

  it('tells of all that waits as soon as Temporal answers anything', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    temporal.behaviour = 'fails';
    for (const pod of ['a', 'b', 'c']) starter.want(wanted({ workflowId: `restart-containers/${pod}` }));
    await elapse(300_000);
    temporal.behaviour = 'answers';
    await starter.restartMissing('restartContainers');
    await elapse();
    expect(temporal.running.size).toBe(3);
    expect(temporal.starts).toHaveLength(3);
  });

  it('says that Temporal is silent after the time given, once, and when it answers again', async () => {
    const temporal = new FakeTemporal();
    const { starter, silence } = starterOn(temporal);
    temporal.behaviour = 'fails';
    starter.want(wanted());
    await elapse(59_999);
    expect(starter.silent).toBe(false);
    await elapse(1);
    expect(starter.silent).toBe(true);
    await elapse(300_000);
    expect(silence).toEqual([true]);
    temporal.behaviour = 'answers';
    await elapse(30_000);
    expect(silence).toEqual([true, false]);
    expect(starter.silent).toBe(false);
  });

  it('takes a call without any answer for silence, too', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    const gate = newGate();
    temporal.behaviour = gate;
    void starter.probe();
    await elapse(60_000);
    expect(starter.silent).toBe(true);
    gate.open();
    await elapse();
    expect(starter.silent).toBe(false);
  });

  it('is not silent for a failure that is followed by an answer in time', async () => {
    const temporal = new FakeTemporal();
    const { starter, silence } = starterOn(temporal);
    temporal.behaviour = 'fails';
    starter.want(wanted());
    await elapse(20_000);
    temporal.behaviour = 'answers';
    await elapse(300_000);
    expect(silence).toEqual([]);
  });

  it('starts nothing while this watcher is not the leader', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal, { mayStart: () => false });
    starter.want(wanted());
    await starter.restartMissing('restartContainers');
    await elapse(60_000);
    expect(temporal.starts).toEqual([]);
    expect(temporal.lists).toBe(0);
  });

  it('forgets: what is no longer wanted is not started again', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    temporal.behaviour = 'fails';
    starter.want(wanted());
    await elapse(1_000);
    starter.forget('restart-containers/pod-1');
    temporal.behaviour = 'answers';
    await elapse(60_000);
    expect(temporal.starts).toEqual([]);
  });

  it('dismisses: tells what runs to look again if it was told of other inputs last', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    starter.dismiss(wanted());
    starter.want(wanted());
    await elapse();
    starter.dismiss(wanted());
    starter.dismiss(wanted({ inputs: 'second' }));
    await elapse();
    expect(temporal.signals).toEqual([]);
    starter.want(wanted());
    await elapse();
    starter.dismiss(wanted({ inputs: 'second', change: 'second' }));
    await elapse();
    expect(temporal.signals).toEqual([['restart-containers/pod-1', changedSignal, 'second']]);
    expect(starter.isSent('restart-containers/pod-1')).toBe(false);
  });

  it('tells what was forgotten while it was being started to look again', async () => {
    const { temporal, starter, gate } = await startingBehindGate();
    starter.forget('restart-containers/pod-1');
    temporal.behaviour = 'answers';
    gate.open();
    await elapse(60_000);
    expect(temporal.starts).toHaveLength(1);
    expect(temporal.signals).toEqual([['restart-containers/pod-1', changedSignal, null]]);
  });

  it('forgets everything with its leadership, and begins anew with the next', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    starter.want(wanted());
    await elapse();
    starter.reset();
    expect(starter.isSent('restart-containers/pod-1')).toBe(false);
    starter.want(wanted());
    await elapse();
    expect(temporal.starts).toHaveLength(2);
  });

  it('starts again what is wanted and does not run', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    starter.want(wanted());
    starter.want(wanted({ workflowId: 'restart-containers/pod-2' }));
    await elapse();
    temporal.running.delete('restart-containers/pod-2'); // terminated by hand
    await starter.restartMissing('restartContainers');
    await elapse();
    expect(temporal.starts.map(({ options }) => options.workflowId)).toEqual([
      'restart-containers/pod-1',
      'restart-containers/pod-2',
      'restart-containers/pod-2',
    ]);
  });

  it('F1: starts again at once what has been ended on purpose, if it is wanted', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    starter.want(wanted());
    await elapse();
    temporal.running.clear();
    starter.startAgain('restart-containers/pod-1');
    starter.startAgain('restart-containers/nobody-wants-this');
    await elapse();
    expect(temporal.starts.map(({ options }) => options.workflowId)).toEqual([
      'restart-containers/pod-1',
      'restart-containers/pod-1',
    ]);
  });

  it('looks for what is missing one time at a time', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    const gate = newGate();
    temporal.behaviour = gate;
    const looks = [1, 2, 3].map(() => starter.restartMissing('restartContainers'));
    gate.open();
    await Promise.all(looks);
    expect(temporal.lists).toBe(1);
    await starter.restartMissing('restartContainers');
    expect(temporal.lists).toBe(2);
  });

  it('tells what runs and is wanted by nobody to look again, when it is found a second time', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    temporal.running.add('restart-containers/stray');
    await starter.restartMissing('restartContainers');
    expect(temporal.signals).toEqual([]);
    for (let look = 0; look < 5; look++) {
      await starter.restartMissing('restartContainers');
      // a look for another type finds other operations
      temporal.running.delete('restart-containers/stray');
      await starter.restartMissing('pullImages');
      temporal.running.add('restart-containers/stray');
    }
    expect(temporal.signals).toEqual([['restart-containers/stray', changedSignal, null]]);
  });

  it('tells it less and less often, the longer it runs', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    temporal.running.add('roll-out/stray');
    const toldAt: number[] = [];
    for (let look = 1; look <= 500; look++) {
      const before = temporal.signals.length;
      await starter.restartMissing('rollOut');
      if (temporal.signals.length > before) toldAt.push(look);
    }
    expect(toldAt).toEqual([2, 30, 60, 120, 240, 480]);
  });

  describe('begins an operation anew', () => {
    const again = { workflowId: 'restart-containers/pod-1', runId: 'run-1', reason: 'stuck' };
    const terminated = [['restart-containers/pod-1', 'run-1', 'stuck']];

    it('by terminating that run, and starting another whose memo says for which build', async () => {
      const temporal = new FakeTemporal();
      const { starter } = starterOn(temporal);
      starter.want(wanted());
      await elapse();
      starter.beginAnew(again);
      expect(starter.isSent('restart-containers/pod-1')).toBe(false);
      await elapse();
      expect(temporal.terminated).toEqual(terminated);
      expect(temporal.starts).toHaveLength(2);
      expect(temporal.starts[0]?.options.memo).not.toHaveProperty('begunAnew');
      expect(temporal.starts[1]?.options).toMatchObject({
        signal: changedSignal,
        memo: { name: 'crr-a', build: 'test', begunAnew: 'test' },
      });
      // only this start has the memo
      starter.want(wanted({ inputs: 'second' }));
      await elapse();
      expect(temporal.starts[2]?.options.memo).not.toHaveProperty('begunAnew');
      expect(temporal.terminated).toHaveLength(1);
    });

    it('as soon as Temporal answers, and also where the run has ended by itself', async () => {
      const temporal = new FakeTemporal();
      const { starter } = starterOn(temporal);
      starter.want(wanted());
      await elapse();
      temporal.running.clear();
      temporal.behaviour = 'fails';
      starter.beginAnew(again);
      await elapse(1_000);
      temporal.behaviour = 'answers';
      await elapse(60_000);
      expect(temporal.terminated).toEqual(terminated);
      expect(temporal.starts[1]?.options.memo).toMatchObject({ begunAnew: 'test' });
      expect(temporal.starts).toHaveLength(2);
    });

    it('that was being signalled at that moment', async () => {
      const { temporal, starter, gate } = await startingBehindGate();
      starter.beginAnew(again);
      gate.open();
      await elapse();
      expect(temporal.terminated).toEqual(terminated);
      expect(temporal.starts.map(({ options }) => options.memo)).toMatchObject([
        { build: 'test' },
        { begunAnew: 'test' },
      ]);
      expect(temporal.running.size).toBe(1);
    });

    it('only as far as it is wanted: what nobody wants is terminated alone', async () => {
      const temporal = new FakeTemporal();
      temporal.running.add('restart-containers/pod-1');
      const { starter } = starterOn(temporal);
      starter.beginAnew(again);
      await elapse();
      expect([temporal.terminated, temporal.starts]).toEqual([terminated, []]);
      starter.want(wanted());
      await elapse();
      expect(temporal.terminated).toHaveLength(1);
      expect(temporal.starts[0]?.options.memo).not.toHaveProperty('begunAnew');
    });

    it('not while another watcher leads', async () => {
      const temporal = new FakeTemporal();
      let leads = true;
      const { starter } = starterOn(temporal, { mayStart: () => leads });
      starter.want(wanted());
      await elapse();
      leads = false;
      starter.beginAnew(again);
      await elapse();
      starter.reset();
      leads = true;
      starter.want(wanted());
      await elapse();
      expect(temporal.terminated).toEqual([]);
    });
  });

  it('tells why an operation does not go on: Temporal is silent, else what is found to be stuck', async () => {
    const temporal = new FakeTemporal();
    const stuck = engineStuck({ workflowId: 'a', temporalNamespace: 'default', wasBegunAnew: false });
    const asked: unknown[] = [];
    const { starter } = starterOn(temporal, {
      stuck: (workflowId, shown) => {
        asked.push([workflowId, shown]);
        return workflowId === 'a' ? stuck : undefined;
      },
    });
    expect([starter.trouble('a', 'Stopping'), starter.trouble('b')]).toEqual([stuck, undefined]);
    expect(asked).toEqual([
      ['a', 'Stopping'],
      ['b', undefined],
    ]);
    temporal.behaviour = 'fails';
    await starter.probe();
    await elapse(60_000);
    expect([starter.trouble('a'), starter.trouble('b')]).toEqual([engineSilent, engineSilent]);
  });

  it('signals a running operation, and does nothing when there is none', async () => {
    const temporal = new FakeTemporal();
    const { starter, silence } = starterOn(temporal);
    const isAnswered = () => starter.tell('restart-containers/pod-1', { withdrawn: true });
    expect(await isAnswered()).toBe(true);
    temporal.running.add('restart-containers/pod-1');
    expect(await isAnswered()).toBe(true);
    expect(temporal.signals).toEqual([['restart-containers/pod-1', changedSignal, { withdrawn: true }]]);
    await elapse(300_000);
    expect(silence).toEqual([]);
    temporal.behaviour = 'fails';
    expect(await starter.tell('restart-containers/pod-1', {})).toBe(false);
    await elapse(60_000);
    expect(silence).toEqual([true]);
  });

  it('detects silence by probes when there is nothing to send, and none while it does not lead', async () => {
    const temporal = new FakeTemporal();
    const { starter, silence } = starterOn(temporal);
    temporal.behaviour = newGate();
    void starter.probe();
    await elapse(30_000);
    starter.reset();
    await elapse(60_000);
    expect(silence).toEqual([]);
    temporal.behaviour.open();
    await elapse();
    temporal.behaviour = 'fails';
    await starter.probe();
    await elapse(60_000);
    expect(silence).toEqual([true]);
    temporal.behaviour = 'answers';
    await starter.probe();
    expect(silence).toEqual([true, false]);
  });

  it('F13: is not silent because the visibility store is away, and is not heard because that answers', async () => {
    const temporal = new FakeTemporal();
    const { starter, silence } = starterOn(temporal);
    temporal.visibility = 'fails';
    for (let minute = 0; minute < 5; minute++) {
      await starter.probe();
      await starter.restartMissing('restartContainers');
      await elapse(60_000);
    }
    expect(silence).toEqual([]);

    temporal.visibility = 'answers';
    temporal.behaviour = 'fails';
    await starter.probe();
    await elapse(60_000);
    expect(silence).toEqual([true]);
    temporal.behaviour = 'answers';
    await starter.restartMissing('restartContainers');
    expect(silence).toEqual([true]);
    await starter.probe();
    expect(silence).toEqual([true, false]);
  });

  it('starts what a command is for, if that is asked and it does not run', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    await starter.command('restart-containers/pod-1', 'undo', { by: 'ann' }, wanted());
    expect(temporal.starts).toMatchObject([
      {
        type: 'restartContainers',
        options: { args: [{ request: 'crr-a' }], signal: 'undo', signalArgs: [{ by: 'ann' }] },
      },
    ]);
  });

  it('passes a command on, and fails where there is nothing to command', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    await expect(starter.command('restart-containers/pod-1', 'pause', {})).rejects.toThrow('no such workflow');
    temporal.running.add('restart-containers/pod-1');
    await starter.command('restart-containers/pod-1', 'pause', { by: 'ann' });
    expect(temporal.signals).toEqual([['restart-containers/pod-1', 'pause', { by: 'ann' }]]);
  });

  it('stops its retries', async () => {
    const temporal = new FakeTemporal();
    const { starter, errors, silence } = starterOn(temporal);
    temporal.behaviour = 'fails';
    starter.want(wanted());
    await elapse();
    await starter.stop();
    await elapse(300_000);
    expect(errors).toHaveLength(1);
    expect(silence).toEqual([]);
  });
});

describe('a run that release 0.1.0 has begun', () => {
  const [earlier, workflowId] = ['restart-containers/pod-1', 'restart-containers/shop/web/pod-1'];
  const ofPod = (inputs = 'first') => wanted({ workflowId, inputs, change: inputs });
  const started = (temporal: FakeTemporal) => temporal.starts.map(({ options }) => options.workflowId);

  /** A starter beside an open run with the earlier workflow ID. */
  function besideEarlier() {
    const temporal = new FakeTemporal();
    temporal.running.add(earlier);
    return { temporal, ...starterOn(temporal) };
  }

  it('keeps its workflow ID and hears of all changes, and none is begun beside it', async () => {
    const { temporal, starter } = besideEarlier();
    starter.want(ofPod());
    await elapse();
    starter.want(ofPod('second'));
    await elapse();
    expect(temporal.signals).toEqual(['first', 'second'].map((inputs) => [earlier, changedSignal, inputs]));
    expect(temporal.starts).toEqual([]);
    expect([starter.isSent(workflowId), starter.isSent(earlier)]).toEqual([true, true]);
  });

  it('is followed by one with the ID of this release, and is not asked for again in the term', async () => {
    const { temporal, starter } = besideEarlier();
    starter.want(ofPod());
    await elapse();
    temporal.running.delete(earlier);
    for (const inputs of ['second', 'third']) {
      starter.want(ofPod(inputs));
      await elapse();
    }
    await starter.tell(workflowId, null);
    expect(started(temporal)).toEqual([workflowId, workflowId]);
    expect(temporal.asked).toEqual([earlier, earlier, workflowId]);
  });

  it('is asked for once where there is none, and again in the next term', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    const want = async (inputs: string) => {
      starter.want(ofPod(inputs));
      await elapse();
    };
    await want('first');
    await want('second');
    starter.forget(workflowId);
    await want('third');
    expect(temporal.asked).toEqual([earlier]);
    starter.reset();
    await want('first');
    expect(temporal.asked).toEqual([earlier, earlier]);
    expect(new Set(started(temporal))).toEqual(new Set([workflowId]));
  });

  it('may be there as long as Temporal has not answered: nothing is begun', async () => {
    const { temporal, starter, errors } = besideEarlier();
    temporal.behaviour = 'fails';
    starter.want(ofPod());
    await elapse(10_000);
    expect(temporal.starts).toEqual([]);
    expect(new Set(errors)).toEqual(new Set([workflowId]));
    temporal.behaviour = 'answers';
    await elapse(30_000);
    expect(temporal.starts).toEqual([]);
    expect(temporal.signals).toEqual([[earlier, changedSignal, 'first']]);
  });

  it('gets commands and what an operation is told', async () => {
    const { temporal, starter } = besideEarlier();
    await starter.command(workflowId, 'pause', { by: 'ann' });
    await starter.command(workflowId, 'undo', { by: 'ann' }, ofPod());
    await starter.tell(workflowId, { withdrawn: true });
    expect(temporal.signals.map(([id, name]) => [id, name])).toEqual([
      [earlier, 'pause'],
      [earlier, 'undo'],
      [earlier, changedSignal],
    ]);
    expect(temporal.starts).toEqual([]);
  });

  it('counts as the run of its operation in a list', async () => {
    const { temporal, starter } = besideEarlier();
    starter.want(ofPod());
    await elapse();
    for (let pass = 0; pass < 3; pass++) await starter.restartMissing('restartContainers');
    await elapse();
    expect([temporal.asked, temporal.terminated]).toEqual([[earlier], []]);
  });

  it('is started again under the ID of this release when it was terminated', async () => {
    for (const end of ['startAgain', 'beginAnew'] as const) {
      const { temporal, starter } = besideEarlier();
      starter.want(ofPod());
      await elapse();
      if (end === 'beginAnew') starter.beginAnew({ workflowId: earlier, runId: 'run-1', reason: 'stuck' });
      else {
        temporal.running.delete(earlier);
        starter.startAgain(earlier);
      }
      await elapse();
      expect(started(temporal)).toEqual([workflowId]);
      expect(temporal.running).toEqual(new Set([workflowId]));
      const begunAnew = end === 'beginAnew' ? { begunAnew: 'test' } : {};
      expect(temporal.starts[0]?.options.memo).toEqual({
        ...{ kind: 'ContainerRecreateRequest', namespace: 'shop', name: 'crr-a', build: 'test' },
        ...begunAnew,
      });
    }
  });

  it('is terminated when its start arrives late, after another run has taken the lock', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    starter.want(ofPod());
    await elapse();
    temporal.running.add(earlier);
    await starter.restartMissing('restartContainers');
    await elapse();
    expect(temporal.terminated).toEqual([[earlier, undefined, expect.stringContaining('release 0.1.0')]]);
    expect(temporal.running).toEqual(new Set([workflowId]));
    expect(temporal.starts).toHaveLength(1);
  });

  it('keeps the lock where a run with the ID of this release is open, too: that one is terminated', async () => {
    const { temporal, starter } = besideEarlier();
    temporal.running.add(workflowId);
    starter.want(ofPod());
    await elapse();
    await starter.restartMissing('restartContainers');
    await elapse();
    expect(temporal.terminated.map(([id]) => id)).toEqual([workflowId]);
    expect(temporal.running).toEqual(new Set([earlier]));
    expect(temporal.starts).toEqual([]);
  });

  it('that only a late list still shows beside the run of this release ends nothing', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    temporal.running.add(workflowId);
    temporal.listedLate.add(earlier);
    await starter.restartMissing('restartContainers');
    await elapse();
    expect(temporal.running).toEqual(new Set([workflowId]));
  });
});

describe('an operation that is told by its lock alone', () => {
  it('is found as long as it is wanted', async () => {
    const temporal = new FakeTemporal();
    const { starter } = starterOn(temporal);
    const [lock, workflowId] = ['pull-on-nodes/job-1', 'pull-on-nodes/shop/warm/job-1'];
    starter.want(wanted({ workflowId }));
    await elapse();
    const told = starter.tell(lock, null);
    starter.forget(lock);
    await told;
    expect(temporal.signals).toEqual([[workflowId, changedSignal, null]]);
  });
});
