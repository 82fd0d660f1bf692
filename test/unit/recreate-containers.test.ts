import { describe, expect, it } from '@jest/globals';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { recreateWaits } from '../../api/container-recreate-request/texts.ts';
import {
  applyEvent,
  markStarted,
  newProgress,
  type RecreateEvent,
  type SeenInstance,
} from '../../plan/recreate/events.ts';
import {
  type Command,
  type ContainerBefore,
  isMomentary,
  isOver,
  lookWindow,
  type Progress,
  type RecreateOrder,
} from '../../plan/recreate/model.ts';
import { type Action, nextActions } from '../../plan/recreate/next.ts';
import { recreateStatus, skipperOf } from '../../plan/recreate/status.ts';
import { waitingOnBlockersSince } from '../../plan/waiting-since.ts';

function order(overrides: Partial<RecreateOrder> = {}): RecreateOrder {
  return {
    request: 'crr-a',
    pod: 'web',
    ordered: false,
    force: false,
    failurePolicy: 'Fail',
    graceSeconds: 30,
    minStartedSeconds: 0,
    ...overrides,
  };
}

/** A container as the request knows it: instance `<name>-0` ran when the request was made. */
function container(name: string, overrides: Partial<ContainerBefore> = {}): ContainerBefore {
  return { name, phase: 'Pending', isKilled: false, originalId: `${name}-0`, originalRestartCount: 0, ...overrides };
}

interface Setting {
  readonly containers: readonly (string | ContainerBefore)[];
  readonly order?: Partial<RecreateOrder>;
  readonly phase?: Progress['phase'];
  readonly waitingFor?: { readonly reason: string; readonly unblock: string };
}

function progressOf({ containers, phase = '', waitingFor, ...rest }: Setting): Progress {
  return newProgress({
    order: order(rest.order),
    phase,
    containers: containers.map((each) => (typeof each === 'string' ? container(each) : each)),
    ...(waitingFor ? { waitingFor: { blockedBy: [], blockedCount: 0, ...waitingFor } } : {}),
  });
}

/** The running instance of a container, by default the original one. */
function instance(name: string, overrides: Partial<SeenInstance> = {}): SeenInstance {
  return { name, id: `${name}-0`, state: 'running', restartCount: 0, ...overrides };
}

/** Starts all due actions. */
function begun(progress: Progress): { readonly progress: Progress; readonly actions: readonly Action[] } {
  const actions: Action[] = [];
  let now = progress;
  for (let due = nextActions(now); due.length > 0; due = nextActions(now)) {
    actions.push(...due);
    now = due.reduce(markStarted, now);
  }
  return { progress: now, actions };
}

/** The progress after these events, with all due actions started in between and afterwards. */
function played(progress: Progress, ...news: readonly RecreateEvent[]): Progress {
  return news.reduce((now, each) => begun(applyEvent(now, each)).progress, begun(progress).progress);
}

/** What is due next, by kind and container. */
function due(progress: Progress): readonly string[] {
  return begun(progress).actions.map((action) =>
    'container' in action ? `${action.kind} ${action.container}` : action.kind,
  );
}

function looked(...instances: readonly SeenInstance[]): RecreateEvent {
  return { kind: 'looked', containers: instances.map(({ name }) => name), instances };
}

function stopped(name: string): RecreateEvent {
  return { kind: 'stopEnded', container: name, result: { kind: 'stopped' } };
}

function stopFailed(name: string, message = 'runtime says no'): RecreateEvent {
  return { kind: 'stopEnded', container: name, result: { kind: 'failed', message } };
}

/** The instance that was to be stopped does not exist. */
function gone(name: string): RecreateEvent {
  return { kind: 'stopEnded', container: name, result: { kind: 'alreadyGone' } };
}

function ready(name: string, id = `${name}-1`): RecreateEvent {
  return { kind: 'awaitEnded', container: name, result: { kind: 'ready', containerId: id, restartCount: 1 } };
}

function recorded(name: string, containerId = `${name}-0`): RecreateEvent {
  return { kind: 'targetRecorded', container: name, containerId };
}

function command(name: Command['name'], overrides: Partial<Command> = {}): RecreateEvent {
  return { kind: 'command', command: { id: 1, name, by: 'ann', ...overrides } };
}

function status(progress: Progress) {
  return recreateStatus(progress, 'containerd');
}

function stateOf(progress: Progress, name: string) {
  return status(progress).states.find((state) => state.name === name);
}

function inStop(setting: Setting): Progress {
  const first = setting.containers.map((each) => (typeof each === 'string' ? each : each.name));
  return played(progressOf(setting), looked(...first.map((name) => instance(name))));
}

describe('the walk over the containers', () => {
  it('begins with the stop that the request itself chooses, and says nothing before an answer', () => {
    const { progress, actions } = begun(progressOf({ containers: ['app', 'proxy'] }));
    expect(actions).toEqual([
      { kind: 'stop', container: 'app', containerId: 'app-0', graceSeconds: 30, restartCount: 0 },
    ]);
    expect(status(progress)).toEqual({ phase: '', message: '', states: [], snapshot: [] });
    expect(status(played(progress, stopped('app')))).toMatchObject({ phase: 'Recreating' });
  });

  it('CRR-12: looks meanwhile whether the node answers when the first stop is not over at once', () => {
    const { progress } = begun(progressOf({ containers: ['app', 'proxy'] }));
    expect(isMomentary(progress)).toBe(true);
    expect(begun(applyEvent(progress, { kind: 'stopIsLong' })).actions).toEqual([
      { kind: 'look', containers: ['app', 'proxy'] },
    ]);
    expect(isMomentary(played(progress, { kind: 'stopIsLong' }))).toBe(false);
  });

  it('has nothing to tell of a stop that has just begun, except an end of the request', () => {
    const first = played(progressOf({ containers: ['app', 'proxy'], order: { ordered: false } }), stopped('app'));
    expect(first.inFlight.stopping).toBe('proxy');
    expect(isMomentary(first)).toBe(true);
    expect(isMomentary(applyEvent(first, { kind: 'deadline' }))).toBe(false);
    expect(isMomentary(played(first, stopped('proxy')))).toBe(false);

    const long = played(progressOf({ containers: ['app', 'proxy'], order: { ordered: false } }), {
      kind: 'stopIsLong',
    });
    expect(isMomentary(long)).toBe(false);
    expect(isMomentary(played(long, stopped('app')))).toBe(true);
  });

  it('takes no notice of a stop that was over before it could be called long', () => {
    const over = played(progressOf({ containers: ['app'] }), stopped('app'));
    expect(applyEvent(over, { kind: 'stopIsLong' })).toBe(over);
  });

  it('looks first where the request does not say which instance to stop', () => {
    const forced = progressOf({ containers: ['app'], order: { force: true } });
    const unknown = progressOf({ containers: [container('app', { originalId: '' })] });
    const drained = progressOf({ containers: ['app'], order: { unreadyGraceSeconds: 0 } });
    for (const progress of [forced, unknown, drained]) expect(due(progress)).toEqual(['look']);
    expect(due(applyEvent(progressOf({ containers: ['app'] }), command('pause')))).toEqual(['look']);
  });

  it('asks for the answer again that a look did not bring, while the first stop goes on', () => {
    const progress = played(progressOf({ containers: ['app', 'proxy'] }), { kind: 'stopIsLong' });
    const again = applyEvent(progress, { kind: 'interrupted', during: 'look' });
    expect(begun(again).actions).toEqual([{ kind: 'look', containers: ['app', 'proxy'] }]);
    const seen = played(again, looked(instance('app', { state: 'exited' }), instance('proxy')));
    expect(status(seen)).toMatchObject({ phase: 'Recreating', waitingFor: { reason: 'Stopping' } });
    expect(due(seen)).toEqual([]);
    expect(due(applyEvent(seen, stopped('app')))).toEqual(['await app', 'stop proxy']);
  });

  it('CRR-31: becomes Recreating with the first answer of the node, with all containers in sight', () => {
    const progress = inStop({ containers: ['app', 'proxy'] });
    expect(status(progress)).toMatchObject({ phase: 'Recreating', waitingFor: { reason: 'Stopping' } });
    expect(status(progress).states).toEqual([
      { name: 'app', phase: 'Pending' },
      { name: 'proxy', phase: 'Pending' },
    ]);
  });

  it('CRR-35: stops the instance that ran at creation, with the grace period of the request', () => {
    const setting = { containers: ['app'], order: { graceSeconds: 7 } };
    expect(begun(progressOf(setting)).actions).toContainEqual({
      kind: 'stop',
      container: 'app',
      containerId: 'app-0',
      graceSeconds: 7,
      restartCount: 0,
    });
  });

  it('CRR-35: only awaits a container that anybody has replaced since', () => {
    for (const news of [
      [gone('app'), looked(instance('app', { id: 'app-7' }))],
      [looked(instance('app', { id: 'app-7' })), gone('app'), looked(instance('app', { id: 'app-7' }))],
    ]) {
      const progress = played(progressOf({ containers: ['app'] }), ...news);
      expect(progress.inFlight).toEqual({ looking: false, awaiting: ['app'] });
      expect(stateOf(progress, 'app')).toEqual({ name: 'app', phase: 'Recreating', isKilled: true });
    }
    const missed = played(progressOf({ containers: ['app'] }), gone('app'));
    const found = applyEvent(missed, looked(instance('app', { id: 'app-7' })));
    expect(begun(found).actions).toMatchObject([{ kind: 'await', container: 'app', notContainerId: 'app-0' }]);
  });

  it('CRR-35: takes a greater restart count under the same ID for the new instance, and awaits that one', () => {
    const missed = played(progressOf({ containers: ['app'] }), gone('app'));
    const progress = applyEvent(missed, looked(instance('app', { restartCount: 1 })));
    expect(begun(progress).actions).toMatchObject([{ kind: 'await', notContainerId: '' }]);
  });

  it('CRR-36: takes an instance that has exited for stopped, forced or not', () => {
    for (const force of [false, true]) {
      const begin = begun(progressOf({ containers: ['app'], order: { force } })).progress;
      const from = force ? begin : played(begin, gone('app'));
      const progress = applyEvent(from, looked(instance('app', { id: 'app-3', state: 'exited' })));
      expect(begun(progress).actions).toMatchObject([{ kind: 'await', notContainerId: 'app-3' }]);
      expect(stateOf(progress, 'app')).toMatchObject({ phase: 'Recreating', isKilled: true });
    }
  });

  it('CRR-36: stops a replaced container once more when it is forced, and records which instance first', () => {
    const progress = played(
      progressOf({ containers: ['app'], order: { force: true } }),
      looked(instance('app', { id: 'app-7' })),
    );
    expect(progress.inFlight).toMatchObject({ recording: 'app' });
    const { actions } = begun(applyEvent(progress, recorded('app', 'app-7')));
    expect(actions).toMatchObject([{ kind: 'stop', containerId: 'app-7' }]);
    expect(stateOf(played(progress, recorded('app', 'app-7')), 'app')).toMatchObject({ targetContainerID: 'app-7' });
  });

  it('CRR-36: stops the instance that stands in the record, also when another was meant', () => {
    const progress = played(
      progressOf({ containers: ['app'], order: { force: true } }),
      looked(instance('app', { id: 'app-7' })),
    );
    const { actions } = begun(applyEvent(progress, recorded('app', 'app-0')));
    expect(actions).toMatchObject([{ kind: 'stop', containerId: 'app-0' }]);
  });

  it('CRR-36: looks again before it chooses the next forced target, because that may have changed meanwhile', () => {
    const setting = { containers: ['app', 'proxy'], order: { force: true, ordered: true } };
    const both = looked(instance('app'), instance('proxy'));
    const progress = played(progressOf(setting), both, recorded('app'), stopped('app'), ready('app'));
    expect(progress.inFlight.looking).toBe(true);
    const { actions } = begun(applyEvent(progress, looked(instance('proxy', { id: 'proxy-5' }))));
    expect(actions).toMatchObject([{ kind: 'recordTarget', container: 'proxy', containerId: 'proxy-5' }]);
  });

  it('CRR-40: never stops two at once, and overlaps the starts when it is not ordered', () => {
    const stopping = inStop({ containers: ['app', 'proxy'] });
    expect(due(stopping)).toEqual([]);
    expect(due(applyEvent(stopping, stopped('app')))).toEqual(['await app', 'stop proxy']);
  });

  it('CRR-38: waits for each container to be ready before the next stop when it is ordered', () => {
    const stopping = inStop({ containers: ['app', 'proxy'], order: { ordered: true } });
    const waiting = played(stopping, stopped('app'));
    expect(due(applyEvent(stopping, stopped('app')))).toEqual(['await app']);
    expect(status(waiting).waitingFor).toMatchObject({ reason: 'ContainerNotReady', blockedBy: ['container/app'] });
    expect(due(applyEvent(waiting, ready('app')))).toEqual(['stop proxy']);
  });

  it('CRR-33: awaits another instance than the one that was stopped, for longer than minStartedSeconds', () => {
    const stopping = inStop({ containers: ['app'], order: { minStartedSeconds: 5 } });
    expect(begun(applyEvent(stopping, stopped('app'))).actions).toEqual([
      { kind: 'await', container: 'app', notContainerId: 'app-0', minStartedSeconds: 5, isYoung: false, trouble: '' },
    ]);
  });

  it('CRR-33: tells a container that has only to run for longer from one that is not ready', () => {
    const young = (isYoung: boolean): RecreateEvent => ({
      kind: 'awaitEnded',
      container: 'app',
      result: { kind: 'changed', isYoung },
    });
    const stopping = inStop({ containers: ['app'], order: { minStartedSeconds: 5 } });
    const waiting = played(stopping, stopped('app'));
    expect(status(waiting).waitingFor).toMatchObject({ reason: 'ContainerNotReady' });

    const aging = applyEvent(waiting, young(true));
    expect(status(aging).waitingFor).toMatchObject({ reason: 'MinStartedSeconds', blockedBy: ['container/app'] });
    expect(begun(aging).actions).toMatchObject([{ kind: 'await', minStartedSeconds: 5, isYoung: true }]);

    const unready = played(aging, young(false));
    expect(status(unready).waitingFor).toMatchObject({ reason: 'ContainerNotReady' });
    expect(status(played(unready, young(true), ready('app'))).phase).toBe('Completed');
  });

  it('says why the kubelet does not start a new instance, as long as it says so', () => {
    const told = (trouble: string): RecreateEvent => ({
      kind: 'awaitEnded',
      container: 'app',
      result: { kind: 'changed', isYoung: false, trouble },
    });
    const waiting = played(inStop({ containers: ['app', 'proxy'] }), stopped('app'), stopped('proxy'));
    const crashing = applyEvent(waiting, told('CrashLoopBackOff: exit code 1 (Error)'));
    expect(status(crashing).waitingFor).toMatchObject({
      reason: 'ContainerNotReady',
      blockedBy: ['container/app', 'container/proxy'],
      unblock: `${recreateWaits.ContainerNotReady}; app: CrashLoopBackOff: exit code 1 (Error)`,
    });
    expect(begun(crashing).actions).toMatchObject([
      { kind: 'await', container: 'app', trouble: 'CrashLoopBackOff: exit code 1 (Error)' },
    ]);
    expect(status(played(crashing, told(''))).waitingFor?.unblock).toBe(recreateWaits.ContainerNotReady);
    expect(status(played(crashing, ready('app'))).waitingFor).toMatchObject({ blockedBy: ['container/proxy'] });
  });

  it('CRR-20: shows the instance that took over in the snapshot, under its full ID', () => {
    const done = played(inStop({ containers: ['app', 'proxy'] }), stopped('app'), ready('app'));
    expect(status(done).snapshot).toEqual([
      { name: 'app', ready: true, restartCount: 1, containerID: 'containerd://app-1' },
    ]);
  });

  it('CRR-41: completes without a message when every container has succeeded', () => {
    const done = played(
      inStop({ containers: ['app', 'proxy'] }),
      stopped('app'),
      stopped('proxy'),
      ready('app'),
      ready('proxy'),
    );
    expect(isOver(done)).toBe(true);
    expect(status(done)).toMatchObject({
      phase: 'Completed',
      message: '',
      condition: { type: 'Complete', reason: 'ContainersRecreated' },
    });
    expect(status(done).waitingFor).toBeUndefined();
  });

  it('CRR-41: completes at once when all that was missing is the last report of an earlier run', () => {
    const found = progressOf({ phase: 'Recreating', containers: [container('app', { phase: 'Succeeded' })] });
    expect(found.end).toEqual({ kind: 'settled' });
    expect(isOver(found)).toBe(true);
  });

  it('CRR-39: does not pass a container that the runtime lacks, and looks again when it has appeared', () => {
    const from = progressOf({ containers: ['app', 'proxy'] });
    const missing = played(from, gone('app'), {
      kind: 'looked',
      containers: ['app', 'proxy'],
      instances: [instance('proxy')],
    });
    expect(stateOf(missing, 'app')).toEqual({ name: 'app', phase: 'Pending', message: 'not found container on Node' });
    expect(missing.inFlight).toMatchObject({ awaiting: ['app'] });
    expect(status(missing).waitingFor).toMatchObject({ reason: 'ContainerNotFound', blockedBy: ['container/app'] });

    expect(due(applyEvent(missing, ready('app')))).toEqual(['look']);
    const appeared = played(missing, ready('app'), looked(instance('app', { id: 'app-1' })));
    expect(stateOf(appeared, 'app')).toEqual({ name: 'app', phase: 'Recreating', isKilled: true });
    expect(appeared.inFlight.stopping).toBe('proxy');
  });

  it('CRR-37: ends at the first failed stop, and leaves the others untouched', () => {
    const failed = played(inStop({ containers: ['app', 'proxy'] }), stopFailed('app'));
    expect(isOver(failed)).toBe(true);
    expect(stateOf(failed, 'app')).toEqual({
      name: 'app',
      phase: 'Failed',
      message: 'kill container error: runtime says no',
    });
    expect(stateOf(failed, 'proxy')).toEqual({ name: 'proxy', phase: 'Pending' });
    expect(status(failed)).toMatchObject({ message: '', condition: { type: 'Failed', reason: 'StopFailed' } });
  });

  it('CRR-37: goes on after a failed stop when failures are ignored, and names them at the end', () => {
    const setting = { containers: ['app', 'proxy'], order: { failurePolicy: 'Ignore', ordered: true } } as const;
    const failed = played(inStop(setting), stopFailed('app'));
    expect(failed.inFlight.stopping).toBe('proxy');
    const done = played(failed, stopped('proxy'), ready('proxy'));
    expect(status(done).condition).toMatchObject({ type: 'Complete', reason: 'ContainersRecreated' });
    expect(status(done).condition?.message).toContain('"app": kill container error: runtime says no');
  });

  it('CRR-46: stays open for a container that does not come back, and says so when the pod never restarts any', () => {
    const open = played(inStop({ containers: ['app'], order: { neverRestarts: true } }), stopped('app'));
    expect(isOver(open)).toBe(false);
    expect(status(open).waitingFor).toMatchObject({ reason: 'PodFinished', blockedBy: ['container/app'] });
  });

  it('CRR-46: says so, too, when the pod ends while a container is waited for', () => {
    const open = played(inStop({ containers: ['app'] }), stopped('app'));
    expect(status(open).waitingFor).toMatchObject({ reason: 'ContainerNotReady' });
    const ended = played(open, { kind: 'podFinished' });
    expect(isOver(ended)).toBe(false);
    expect(status(ended).waitingFor).toMatchObject({ reason: 'PodFinished', blockedBy: ['container/app'] });
  });

  it('CRR-21: nothing but the report of the kubelet about the new instance makes a container succeed', () => {
    const restarted = instance('app', { id: 'app-1', restartCount: 1 });
    const open = played(inStop({ containers: ['app'] }), stopped('app'), looked(restarted));
    expect(stateOf(open, 'app')).toMatchObject({ phase: 'Recreating', isKilled: true });
    expect(stateOf(played(open, ready('app')), 'app')).toMatchObject({ phase: 'Succeeded' });
  });

  it('CRR-34: a forced stop is not due before its target stands in the status', () => {
    const waiting = inStop({ containers: ['app'], order: { force: true } });
    expect(waiting.inFlight).toMatchObject({ recording: 'app' });
    expect(waiting.inFlight.stopping).toBeUndefined();
    expect(played(waiting, recorded('app')).inFlight.stopping).toBe('app');
  });

  it('CRR-45: after a stop there is nothing left to do for a container but to wait for what the kubelet makes of it', () => {
    const { actions } = begun(applyEvent(inStop({ containers: ['app'] }), stopped('app')));
    expect(actions).toEqual([
      { kind: 'await', container: 'app', notContainerId: 'app-0', minStartedSeconds: expect.any(Number), trouble: '' },
    ]);
  });

  it('CRR-51: a node that falls silent after it has answered is waited for until the deadline', () => {
    const silent = played(inStop({ containers: ['app'] }), {
      kind: 'nodeSilent',
      during: 'stop',
      container: 'app',
    });
    expect(silent.end).toBeUndefined();
    expect(status(silent).waitingFor).toMatchObject({ reason: 'NodeSilent' });
    const still = played(silent, { kind: 'nodeSilent', during: 'look' });
    expect(still.end).toBeUndefined();
    expect(status(played(still, { kind: 'deadline' })).condition).toMatchObject({ reason: 'DeadlineExceeded' });
  });

  it('CRR-52: a pod that is gone ends the request, and a stop that still runs only holds up its operation', () => {
    const gone = played(inStop({ containers: ['app', 'proxy'] }), { kind: 'podGone' });
    expect(status(gone)).toMatchObject({ phase: 'Completed', message: 'pod has gone' });
    expect(isOver(gone)).toBe(false);
    expect(isOver(played(gone, stopped('app')))).toBe(true);
  });

  it('CRR-54: an instance that an in-place update has started counts as the new one and is not stopped', () => {
    const updated = instance('app', { id: 'app-of-the-new-image', restartCount: 1 });
    const { actions } = begun(applyEvent(played(progressOf({ containers: ['app'] }), gone('app')), looked(updated)));
    expect(actions.map(({ kind }) => kind)).toEqual(['await']);
  });

  it('looks at many containers in parts, as the walk comes to them', () => {
    const names = Array.from({ length: lookWindow + 3 }, (_, index) => `c${index}`);
    const [first, rest] = [names.slice(0, lookWindow), names.slice(lookWindow)];
    const progress = progressOf({ containers: names, order: { force: true, ordered: false } });
    expect(begun(progress).actions).toEqual([{ kind: 'look', containers: first }]);
    const replaced = applyEvent(
      begun(progress).progress,
      looked(...first.map((name) => instance(name, { state: 'exited' }))),
    );
    expect(begun(replaced).actions).toContainEqual({ kind: 'look', containers: rest });
    expect(status(replaced).states).toHaveLength(names.length);
  });
});

describe('a request that is taken up again', () => {
  it('CRR-50: repeats a stop whose instance still runs', () => {
    expect(due(progressOf({ phase: 'Recreating', containers: ['app'] }))).toEqual(['stop app']);
  });

  it('CRR-50: recognises its own stop in an instance that has exited or was replaced', () => {
    const again = begun(progressOf({ phase: 'Recreating', containers: ['app', 'proxy'] })).progress;
    const instances = [instance('app', { state: 'exited' }), instance('proxy', { id: 'proxy-1' })];
    expect(due(applyEvent(played(again, gone('app')), looked(...instances)))).toEqual(['await app', 'await proxy']);
  });

  it('CRR-50: never stops the successor of a forced target, whether that is seen, has exited, or is missing', () => {
    const before = container('app', { targetId: 'app-0' });
    const again = begun(progressOf({ phase: 'Recreating', containers: [before], order: { force: true } })).progress;
    const nothing: RecreateEvent = { kind: 'looked', containers: ['app'], instances: [] };
    for (const news of [
      looked(instance('app', { id: 'app-1' })),
      looked(instance('app', { id: 'app-1', state: 'exited' })),
      looked(instance('app', { state: 'exited' })),
      nothing,
    ]) {
      expect(begun(applyEvent(again, news)).actions).toMatchObject([{ kind: 'await', notContainerId: 'app-0' }]);
    }
    expect(due(applyEvent(again, looked(instance('app'))))).toEqual(['stop app']);
  });

  it('keeps what has succeeded or failed, and asks only about the rest', () => {
    const setting = {
      phase: 'Recreating',
      containers: [
        container('a', { phase: 'Succeeded', isKilled: true }),
        container('b', { phase: 'Failed', message: 'kill container error: x' }),
        'c',
      ],
      order: { failurePolicy: 'Ignore' },
    } as const;
    expect(due(progressOf(setting))).toEqual(['stop c']);
    expect(begun(applyEvent(begun(progressOf(setting)).progress, gone('c'))).actions).toEqual([
      { kind: 'look', containers: ['c'] },
    ]);
  });

  it('keeps a skip and a pause, which its status tells of', () => {
    const first = played(
      inStop({ containers: ['app', 'proxy'] }),
      command('pause'),
      command('skip', { target: 'proxy' }),
    );
    const { states, waitingFor, phase } = status(first);
    const containers = states.map((state) => {
      const skippedBy = skipperOf(state);
      return container(state.name, { phase: state.phase, ...(skippedBy === undefined ? {} : { skippedBy }) });
    });
    const again = newProgress({ order: order(), phase, containers, ...(waitingFor ? { waitingFor } : {}) });

    const progress = played(again, looked(instance('app')));
    expect(progress.inFlight.stopping).toBeUndefined();
    expect(status(progress).waitingFor).toMatchObject({ reason: 'Paused', unblock: expect.stringContaining('by ann') });
    expect(due(applyEvent(progress, command('resume')))).toEqual(['stop app']);
    expect(stateOf(progress, 'proxy')?.message).toBe('skipped by ann');
  });

  it('does not take a container that succeeded all the same for skipped', () => {
    expect(skipperOf({ name: 'app', phase: 'Succeeded', message: 'skipped by ann' })).toBeUndefined();
    expect(skipperOf({ name: 'app', phase: 'Pending' })).toBeUndefined();
  });
});

describe('the end of a request', () => {
  it('CRR-11: comes when the pod goes, whatever is still to be done', () => {
    const gone = played(inStop({ containers: ['app'] }), stopped('app'), { kind: 'podGone' });
    expect(isOver(gone)).toBe(true);
    expect(status(gone)).toMatchObject({
      phase: 'Completed',
      message: 'pod has gone',
      condition: { reason: 'PodGone' },
    });
    expect(nextActions(gone)).toEqual([]);
  });

  it('CRR-12: comes when the node does not answer the first question', () => {
    const silent = played(progressOf({ containers: ['app'] }), { kind: 'nodeSilent', during: 'look' });
    expect(status(silent)).toMatchObject({
      message: 'daemon has not responded for a long time',
      condition: { type: 'Failed', reason: 'NodeSilent' },
    });
  });

  it('CRR-12: does not come for silence once the request is Pending or Recreating', () => {
    for (const phase of ['Pending', 'Recreating'] as const) {
      const silent = played(progressOf({ phase, containers: ['app'] }), { kind: 'nodeSilent', during: 'look' });
      expect(silent.end).toBeUndefined();
      expect(status(silent).waitingFor).toMatchObject({ reason: 'NodeSilent', blockedBy: ['pod/web'] });
    }
  });

  it('CRR-13: comes at the deadline, does not cancel the stop that runs, and leaves the states as they are', () => {
    const stopping = inStop({ containers: ['app', 'proxy'] });
    const late = played(stopping, { kind: 'deadline' });
    expect(status(late)).toMatchObject({
      phase: 'Completed',
      message: 'recreating has exceeded the activeDeadlineSeconds',
      condition: { reason: 'DeadlineExceeded' },
      states: [{ phase: 'Pending' }, { phase: 'Pending' }],
    });
    expect(isOver(late)).toBe(false);

    const done = played(late, stopped('app'));
    expect(isOver(done)).toBe(true);
    expect(stateOf(done, 'app')).toEqual({ name: 'app', phase: 'Recreating', isKilled: true });
    expect(done.end).toEqual({ kind: 'deadline' });
  });

  it('CRR-53: comes without a report when the request itself is gone', () => {
    const withdrawn = played(inStop({ containers: ['app', 'proxy'] }), { kind: 'withdrawn' });
    expect(status(withdrawn).phase).toBe('Recreating');
    expect(isOver(withdrawn)).toBe(false);
    expect(isOver(played(withdrawn, stopped('app')))).toBe(true);
    expect(due(played(withdrawn, stopped('app')))).toEqual([]);
  });

  it('comes with the text of the node when it has no such runtime', () => {
    const none = played(progressOf({ containers: ['app'] }), {
      kind: 'noRuntime',
      message: 'this node has only cri-o',
    });
    expect(status(none)).toMatchObject({
      message: 'failed to find runtime service: this node has only cri-o',
      condition: { reason: 'RuntimeNotFound' },
    });
  });

  it('is final, whatever comes later', () => {
    const aborted = played(inStop({ containers: ['app'] }), command('abort'));
    const before = status(aborted);
    const ends: readonly RecreateEvent[] = [
      { kind: 'deadline' },
      { kind: 'podGone' },
      { kind: 'withdrawn' },
      stopped('app'),
      command('skip'),
    ];
    const later = played(aborted, ...ends);
    expect(later.end).toEqual(aborted.end);
    expect(status(later)).toMatchObject({ phase: 'Completed', message: before.message, condition: before.condition });
  });

  it('tells of any number of containers with long names and messages in few bytes', () => {
    const names = Array.from({ length: 60 }, (_, index) => `${index}-`.padEnd(63, 'x'));
    const failed = names.map((name) => container(name, { phase: 'Failed', message: `"${'é'.repeat(300)}"` }));
    const done = progressOf({ phase: 'Recreating', containers: failed, order: { failurePolicy: 'Ignore' } });
    const { condition } = status(done);
    expect(condition?.message).toContain('and 50 more');
    expect(jsonBytes(condition)).toBeLessThan(1_700);
    const long = played(inStop({ containers: ['app'] }), stopFailed('app', 'no\n'.repeat(5_000)));
    expect(jsonBytes(stateOf(long, 'app'))).toBeLessThan(900);
  });
});

describe('drain', () => {
  it('CRR-22: begins before the first stop, once', () => {
    const from = begun(progressOf({ containers: ['app', 'proxy'], order: { unreadyGraceSeconds: 30 } })).progress;
    const both = applyEvent(from, looked(instance('app'), instance('proxy')));
    expect(begun(both).actions).toEqual([{ kind: 'drain', graceSeconds: 30 }]);
    const draining = begun(both).progress;
    expect(status(draining).waitingFor).toMatchObject({ reason: 'Draining' });
    const stopping = played(draining, { kind: 'drained' });
    expect(stopping.inFlight.stopping).toBe('app');
    expect(due(applyEvent(stopping, stopped('app')))).toEqual(['await app', 'stop proxy']);
  });

  it('CRR-22: begins without a wait when the grace period is 0, and not at all without one', () => {
    const zero = begun(progressOf({ containers: ['app'], order: { unreadyGraceSeconds: 0 } })).progress;
    expect(begun(applyEvent(zero, looked(instance('app')))).actions).toEqual([{ kind: 'drain', graceSeconds: 0 }]);
    expect(due(progressOf({ containers: ['app'] }))).toEqual(['stop app']);
  });

  it('does not begin where nothing has to be stopped', () => {
    const from = begun(progressOf({ containers: ['app'], order: { unreadyGraceSeconds: 30 } })).progress;
    expect(due(applyEvent(from, looked(instance('app', { id: 'app-1' }))))).toEqual(['await app']);
  });

  it('looks again afterwards before it chooses a forced target', () => {
    const setting = { containers: ['app'], order: { force: true, unreadyGraceSeconds: 30 } };
    const drained = played(progressOf(setting), looked(instance('app')), { kind: 'drained' });
    expect(drained.inFlight).toMatchObject({ looking: true });
  });
});

describe('commands', () => {
  it('pause holds back every new stop and drain, and nothing that is under way', () => {
    const stopping = inStop({ containers: ['app', 'proxy'] });
    const held = played(stopping, command('pause'), stopped('app'), ready('app'));
    expect(held.inFlight).toEqual({ looking: false, awaiting: [] });
    expect(status(held).waitingFor).toMatchObject({
      reason: 'Paused',
      unblock: 'Signal resume, or abort; paused by ann',
    });
    expect(due(applyEvent(held, command('resume')))).toEqual(['stop proxy']);

    const drain = progressOf({ containers: ['app'], order: { unreadyGraceSeconds: 1 } });
    expect(due(applyEvent(begun(applyEvent(drain, command('pause'))).progress, looked(instance('app'))))).toEqual([]);
  });

  it('pause names who paused as soon as that is known', () => {
    const { by: _, ...anonymous } = { id: 3, name: 'pause' as const, by: '' };
    const held = played(inStop({ containers: ['app'] }), { kind: 'command', command: anonymous });
    expect(status(held).waitingFor?.unblock).toBe('Signal resume, or abort');
    const named = applyEvent(held, { kind: 'commandIdentified', id: 3, by: 'bob@laptop' });
    expect(status(named).waitingFor?.unblock).toBe('Signal resume, or abort; paused by bob@laptop');
  });

  it('resume looks again before a forced target is chosen', () => {
    const from = applyEvent(progressOf({ containers: ['app'], order: { force: true } }), command('pause'));
    const held = played(from, looked(instance('app')));
    expect(due(applyEvent(held, command('resume')))).toEqual(['look']);
  });

  it('abort ends the request under the name of who aborted, and stops nothing further', () => {
    const aborted = played(inStop({ containers: ['app', 'proxy'] }), command('abort'), stopped('app'));
    expect(status(aborted)).toMatchObject({
      phase: 'Completed',
      message: 'aborted by ann',
      condition: { type: 'Failed', reason: 'Aborted', message: expect.stringContaining('Aborted by ann') },
    });
    expect(due(aborted)).toEqual([]);
  });

  it('abort is told only once its sender is known, because what is written stays', () => {
    const aborted = played(
      inStop({ containers: ['app'] }),
      { kind: 'command', command: { id: 9, name: 'abort' } },
      stopped('app'),
    );
    expect(nextActions(aborted)).toEqual([]);
    expect(status(aborted).phase).toBe('Recreating');
    expect(isOver(aborted)).toBe(false);
    const named = applyEvent(aborted, { kind: 'commandIdentified', id: 9, by: 'bob@laptop' });
    expect(status(named)).toMatchObject({ phase: 'Completed', message: 'aborted by bob@laptop' });
    expect(isOver(named)).toBe(true);
  });

  it('skip passes the container that holds the request, which is the one being stopped', () => {
    const skipped = played(inStop({ containers: ['app', 'proxy'] }), stopped('app'), command('skip'));
    expect(stateOf(skipped, 'proxy')).toMatchObject({ phase: 'Pending', message: 'skipped by ann' });
    expect(skipped.inFlight.stopping).toBe('proxy'); // what has begun is completed
    const done = played(skipped, stopped('proxy'), ready('app'));
    expect(status(done).condition).toMatchObject({ type: 'Complete', message: expect.stringContaining('not "proxy"') });
  });

  it('skip of a named container leaves it running', () => {
    const skipped = played(
      inStop({ containers: ['app', 'proxy'] }),
      command('skip', { target: 'proxy' }),
      stopped('app'),
      ready('app'),
    );
    expect(isOver(skipped)).toBe(true);
    expect(stateOf(skipped, 'proxy')).toEqual({ name: 'proxy', phase: 'Pending', message: 'skipped by ann' });
  });

  it('skip of a container that the request does not have, or that is done, changes nothing', () => {
    const waiting = played(inStop({ containers: ['app', 'proxy'] }), stopped('app'), ready('app'));
    for (const target of ['nobody', 'app']) {
      expect(status(played(waiting, command('skip', { target })))).toEqual(status(waiting));
    }
  });

  it('retry stops a failed container again, the recorded instance where there is one', () => {
    const setting = { containers: ['app', 'proxy'], order: { failurePolicy: 'Ignore', ordered: true } } as const;
    const failed = played(inStop(setting), stopFailed('app'));
    const retried = played(failed, stopped('proxy'), command('retry'), looked(instance('app')));
    expect(retried.inFlight.stopping).toBe('app');

    const forced = { containers: ['app', 'proxy'], order: { ...setting.order, force: true } };
    const both = looked(instance('app'), instance('proxy'));
    const again = played(progressOf(forced), both, recorded('app'), stopFailed('app'), command('retry'));
    expect(due(applyEvent(again, looked(instance('app'), instance('proxy'))))).toEqual(['stop app']);
    // CRR-44: a stop that has timed out may have succeeded later
    const gone = played(again, looked(instance('app', { id: 'app-1' }), instance('proxy')));
    expect(stateOf(gone, 'app')).toMatchObject({ phase: 'Recreating', isKilled: true, targetContainerID: 'app-0' });
  });

  it('retry of one container leaves the other failures alone', () => {
    const failed = [container('a', { phase: 'Failed' }), container('b', { phase: 'Failed' }), container('c')];
    const setting = { phase: 'Recreating', containers: failed, order: { failurePolicy: 'Ignore' } } as const;
    const retried = applyEvent(begun(progressOf(setting)).progress, command('retry', { target: 'b' }));
    expect(status(retried).states.map(({ phase }) => phase)).toEqual(['Failed', 'Pending', 'Pending']);
  });

  it('retry takes up what was refused, and nothing goes on before', () => {
    const refused: RecreateEvent = {
      kind: 'refused',
      during: 'stop',
      container: 'app',
      reason: 'Denied',
      message: 'no rights',
    };
    const parked = played(inStop({ containers: ['app', 'proxy'] }), refused);
    expect(due(parked)).toEqual([]);
    expect(status(parked).waitingFor).toMatchObject({
      reason: 'Denied',
      unblock: expect.stringMatching(/^Grant the missing permission.*retry.*skip.*abort; no rights$/),
    });
    const judged = played(inStop({ containers: ['app', 'proxy'] }), { ...refused, reason: 'Invalid' });
    expect(status(judged).waitingFor).toMatchObject({ reason: 'Parked', unblock: expect.stringMatching(/^Fix/) });
    expect(due(applyEvent(parked, command('retry')))).toEqual(['stop app']);
    expect(due(applyEvent(parked, command('skip')))).toEqual(['stop proxy']);
  });

  it('a refused step is due again by itself, without a person', () => {
    const parked = played(inStop({ containers: ['app'] }), {
      kind: 'refused',
      during: 'stop',
      container: 'app',
      reason: 'Denied',
      message: 'forbidden',
    });
    expect(due(parked)).toEqual([]);
    expect(due(applyEvent(parked, { kind: 'tryAgain' }))).toEqual(['stop app']);
  });
});

describe('a node that is silent', () => {
  it('is asked one question at a time, and nothing is stopped on what was known before', () => {
    const silent = played(inStop({ containers: ['app', 'proxy'] }), {
      kind: 'nodeSilent',
      during: 'stop',
      container: 'app',
    });
    expect(silent.inFlight).toEqual({ looking: true, awaiting: [] });
    expect(status(silent).waitingFor).toMatchObject({ reason: 'NodeSilent' });
    expect(due(applyEvent(silent, looked(instance('app'), instance('proxy'))))).toEqual(['stop app']);
  });

  it('is known to have answered by whatever it says', () => {
    const waiting = played(inStop({ containers: ['app', 'proxy'] }), stopped('app'), stopped('proxy'));
    const silent = played(waiting, { kind: 'nodeSilent', during: 'await', container: 'app' });
    expect(due(silent)).toEqual([]); // the other wait is the question
    expect(status(played(silent, ready('proxy'))).waitingFor).toMatchObject({ reason: 'ContainerNotReady' });
  });

  it('is told apart from one whose runtime is away', () => {
    const away = played(
      progressOf({ containers: ['app'] }),
      { kind: 'stopIsLong' },
      { kind: 'runtimeAway', message: 'socket closed' },
    );
    expect(away.end).toBeUndefined();
    expect(away.inFlight.looking).toBe(true);
    expect(status(away).waitingFor).toMatchObject({
      reason: 'RuntimeUnreachable',
      unblock: expect.stringContaining('socket closed'),
    });
    expect(status(played(away, looked(instance('app')))).waitingFor?.reason).toBe('Stopping');
    expect(status(played(away, stopped('app')))).toMatchObject({ phase: 'Recreating' });
  });
});

describe('interrupted steps', () => {
  it('are due again', () => {
    const stopping = inStop({ containers: ['app'] });
    const interrupted: RecreateEvent = { kind: 'interrupted', during: 'stop', container: 'app' };
    expect(due(applyEvent(stopping, interrupted))).toEqual(['stop app']);
    const waiting = played(stopping, stopped('app'));
    expect(due(applyEvent(waiting, { kind: 'interrupted', during: 'await', container: 'app' }))).toEqual(['await app']);
    const looking = played(progressOf({ containers: ['app'] }), { kind: 'stopIsLong' });
    expect(due(applyEvent(looking, { kind: 'interrupted', during: 'look' }))).toEqual(['look']);
    const draining = played(
      progressOf({ containers: ['app'], order: { unreadyGraceSeconds: 1 } }),
      looked(instance('app')),
    );
    expect(due(applyEvent(draining, { kind: 'interrupted', during: 'drain' }))).toEqual(['drain']);
    const recording = played(progressOf({ containers: ['app'], order: { force: true } }), looked(instance('app')));
    expect(due(applyEvent(recording, { kind: 'interrupted', during: 'record', container: 'app' }))).toEqual([
      'recordTarget app',
    ]);
  });

  it('a stop that found its instance gone counts as done where the node has shown it before, else the node is asked', () => {
    const stopping = inStop({ containers: ['app', 'proxy'] });
    expect(due(applyEvent(played(stopping, stopped('app')), gone('proxy')))).toEqual(['await proxy']);
    expect(due(applyEvent(stopping, gone('app')))).toEqual(['look']);
    const asked = played(stopping, gone('app'), looked(instance('app', { state: 'exited' })));
    expect(asked.inFlight).toMatchObject({ awaiting: ['app'], stopping: 'proxy' });
  });

  it('the pod that a node misses is looked for at the API server, which has the last word', () => {
    const waiting = played(inStop({ containers: ['app'] }), stopped('app'));
    const missed: RecreateEvent = { kind: 'awaitEnded', container: 'app', result: { kind: 'podGone' } };
    expect(applyEvent(waiting, missed).end).toBeUndefined();
  });
});

describe('waitingOnBlockersSince', () => {
  const wait = { reason: 'Stopping', blockedBy: ['container/app'], blockedCount: 1, unblock: 'nothing' };

  it('keeps the time at which the same wait began, and takes over a new text', () => {
    const before = waitingOnBlockersSince(undefined, wait, 'noon');
    expect(before).toEqual({ ...wait, since: 'noon' });
    expect(waitingOnBlockersSince(before, { ...wait, unblock: 'else' }, 'later')).toEqual({
      ...wait,
      unblock: 'else',
      since: 'noon',
    });
  });

  it('begins anew for another reason or another thing in the way, and ends', () => {
    const before = { ...wait, since: 'noon' };
    expect(waitingOnBlockersSince(before, { ...wait, blockedBy: ['container/b'] }, 'later')?.since).toBe('later');
    expect(waitingOnBlockersSince(before, { ...wait, reason: 'Paused' }, 'later')?.since).toBe('later');
    expect(waitingOnBlockersSince(before, undefined, 'later')).toBeUndefined();
  });
});

describe('a request that only stops', () => {
  const stopOnly = {
    containers: ['app', 'proxy'],
    order: { stopOnly: true, force: true, failurePolicy: 'Ignore' },
  } as const;
  const running = {
    kind: 'looked',
    containers: ['app', 'proxy'],
    instances: [instance('app'), instance('proxy')],
  } as const;

  it('JST-26: is done when its containers are down, and waits for none of them', () => {
    const seen = played(progressOf(stopOnly), running);
    const recorded = played(seen, { kind: 'targetRecorded', container: 'app', containerId: 'app-0' });
    expect(recorded.inFlight.stopping).toBe('app');
    const next = played(recorded, { kind: 'stopEnded', container: 'app', result: { kind: 'stopped' } });
    expect(next.inFlight.awaiting).toEqual([]);
    const last = played(next, {
      kind: 'looked',
      containers: ['proxy'],
      instances: [instance('proxy', { state: 'exited' })],
    });
    expect(isOver(last)).toBe(true);
    expect(status(last)).toMatchObject({
      phase: 'Completed',
      states: [
        { name: 'app', phase: 'Recreating', isKilled: true },
        { name: 'proxy', phase: 'Recreating', isKilled: true },
      ],
      condition: {
        type: 'Complete',
        reason: 'ContainersStopped',
        message: '2 of 2 containers of pod "web" were stopped',
      },
    });
  });

  it('JST-26: takes what the runtime no longer knows for stopped, and never stops what came after it', () => {
    const taken = progressOf({
      ...stopOnly,
      phase: 'Recreating',
      containers: [container('app', { targetId: 'app-0' }), container('proxy')],
    });
    const seen = played(taken, {
      kind: 'looked',
      containers: ['app', 'proxy'],
      instances: [instance('app', { id: 'app-1', restartCount: 1 })],
    });
    expect(isOver(seen)).toBe(true);
    expect(due(seen)).toEqual([]);
  });

  it('JST-25, JST-30: names what could not be stopped, and stops the rest', () => {
    const seen = played(progressOf(stopOnly), running, {
      kind: 'targetRecorded',
      container: 'app',
      containerId: 'app-0',
    });
    const failed = played(seen, { kind: 'stopEnded', container: 'app', result: { kind: 'failed', message: 'no' } });
    expect(due(failed)).toEqual([]);
    expect(failed.inFlight.looking).toBe(true);
    const over = played(failed, { kind: 'looked', containers: ['proxy'], instances: [] });
    expect(status(over).condition).toMatchObject({
      reason: 'ContainersStopped',
      message: '1 of 2 containers of pod "web" were stopped; not "app"; "app": kill container error: no',
    });
  });
});
