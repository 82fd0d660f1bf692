import { describe, expect, it } from '@jest/globals';
import type { Pod } from '../../api/core/pod.ts';
import {
  isTerminationDue,
  isTerminationRequest,
  phaseByMains,
  sidecarOf,
  terminatingEvent,
  terminationStatusOf,
  terminationWaits,
} from '../../api/job-sidecar-termination.ts';
import { nextTermination, type SidecarWorld } from '../../plan/terminate-sidecars.ts';
import { trimPod } from '../../watcher/trim.ts';
import { type JobPod, jobPod, stoppedStatus, stopRequest } from '../support/job-pod.ts';
import { createdAt } from '../support/objects/metadata.ts';

const one = { marks: { main: 'main', proxy: 'sidecar' } } as const;
const done = { exitCode: 0 };

describe('the marks of a sidecar', () => {
  const env = (...pairs: readonly (readonly [string, string])[]) =>
    sidecarOf({ name: 'c', env: pairs.map(([name, value]) => ({ name: `KRUISE_TERMINATE_SIDECAR_${name}`, value })) });

  it('JST-22: nothing but true, in any letter case, or an image makes one', () => {
    expect(env()).toBeUndefined();
    for (const value of ['yes', '1', '', 'false', ' true']) expect(env(['WHEN_JOB_EXIT', value])).toBeUndefined();
    expect(env(['WHEN_JOB_EXIT', 'True'])).toEqual({ name: 'c', stops: true, ignoresExitCode: false });
    expect(env(['WHEN_JOB_EXIT_WITH_IMAGE', 'i'])).toEqual({
      name: 'c',
      stops: false,
      quickExitImage: 'i',
      ignoresExitCode: false,
    });
  });

  it('JST-23: the exit code is ignored on demand only, and only of what is stopped', () => {
    expect(env(['WHEN_JOB_EXIT', 'true'], ['IGNORE_EXIT_CODE', 'TRUE'])).toMatchObject({ ignoresExitCode: true });
    expect(env(['WHEN_JOB_EXIT', 'true'], ['IGNORE_EXIT_CODE', 'false'])).toMatchObject({ ignoresExitCode: false });
    expect(env(['WHEN_JOB_EXIT_WITH_IMAGE', 'i'], ['IGNORE_EXIT_CODE', 'true'])).toMatchObject({
      ignoresExitCode: false,
    });
    expect(env(['IGNORE_EXIT_CODE', 'true'])).toBeUndefined();
  });

  it('is no variable that comes from elsewhere', () => {
    const valueFrom = { fieldRef: { fieldPath: 'metadata.name' } };
    expect(
      sidecarOf({ name: 'c', env: [{ name: 'KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT', valueFrom }] }),
    ).toBeUndefined();
  });
});

describe('isTerminationDue', () => {
  const isDue = (given: Partial<JobPod>) => isTerminationDue(jobPod({ ...one, ...given }));
  const finished = { now: { main: done } };

  it('JST-1: once the main containers are done and a sidecar is not', () => {
    expect(isDue(finished)).toBe(true);
    expect(isDue({})).toBe(false);
    expect(isDue({ now: { main: done, proxy: done } })).toBe(false);
    expect(isDue({ ...finished, marks: { main: 'main', proxy: 'main' } })).toBe(false);
    expect(isDue({ ...finished, restartPolicy: 'Always' })).toBe(false);
    expect(isDue({ ...finished, phase: 'Pending' })).toBe(false);
  });

  it('JST-34: never for a pod that is being deleted', () => {
    expect(isDue({ ...finished, metadata: { deletionTimestamp: createdAt } })).toBe(false);
  });

  it('JST-2: not before every container has a status', () => {
    const pod = jobPod({ ...one, ...finished });
    const [first] = pod.status?.containerStatuses ?? [];
    expect(isTerminationDue({ ...pod, status: { phase: 'Running', containerStatuses: first ? [first] : [] } })).toBe(
      false,
    );
  });

  it('JST-3, JST-4: any exit code ends a main container under Never, only 0 does under OnFailure', () => {
    const failed = { now: { main: { exitCode: 3 } } };
    expect(isDue({ ...failed, restartPolicy: 'Never' })).toBe(true);
    expect(isDue({ ...failed, restartPolicy: 'OnFailure' })).toBe(false);
    expect(isDue({ now: { main: 'backingOff' }, restartPolicy: 'OnFailure' })).toBe(false);
    expect(isDue({ ...finished, restartPolicy: 'OnFailure' })).toBe(true);
  });

  it('JST-3: every main container counts', () => {
    const marks = { a: 'main', b: 'main', proxy: 'sidecar' } as const;
    expect(isDue({ marks, now: { a: done } })).toBe(false);
    expect(isDue({ marks, now: { a: done, b: { exitCode: 1 } } })).toBe(true);
  });

  it('JST-5: a pod of sidecars alone ends as soon as it runs', () => {
    expect(isDue({ marks: { proxy: 'sidecar', logger: 'image' } })).toBe(true);
  });

  it('JST-6: also in a pod that has finished by itself', () => {
    expect(isDue({ ...finished, phase: 'Failed' })).toBe(true);
  });

  it('JST-24: a sidecar that has failed under OnFailure is not done, because it is started again', () => {
    const failed = { main: done, proxy: { exitCode: 143 } };
    expect(isDue({ now: failed, restartPolicy: 'OnFailure' })).toBe(true);
    expect(isDue({ now: failed, restartPolicy: 'OnFailure', phase: 'Succeeded' })).toBe(false);
    expect(isDue({ now: failed, restartPolicy: 'Never' })).toBe(false);
  });

  it('not any more once somebody has said so on the pod', () => {
    const saying = (status: object) => ({
      ...finished,
      metadata: { annotations: { 'windlass.io/sidecar-termination': JSON.stringify(status) } },
    });
    expect(isDue(saying({ abortedBy: 'ann' }))).toBe(false);
    expect(isDue(saying({ skipped: ['proxy'] }))).toBe(false);
    expect(isDue(saying({ skipped: ['other'] }))).toBe(true);
    expect(isDue({ ...finished, metadata: { annotations: { 'windlass.io/sidecar-termination': '{' } } })).toBe(true);
  });

  it('says the same of what the watcher keeps of a pod', () => {
    const pod = jobPod({ ...one, ...finished });
    expect(isTerminationDue(trimPod(pod))).toBe(true);
    const other = { ...pod, spec: { ...pod.spec, restartPolicy: 'Always' } };
    expect(trimPod(other).spec.containers).toEqual([]);
  });
});

describe('nextTermination', () => {
  function next(given: Partial<JobPod>, world: Partial<SidecarWorld> = {}) {
    return nextTermination({ pod: jobPod({ ...one, now: { main: done }, ...given }), node: 'real', ...world });
  }
  const act = (kind: string, ...containers: readonly string[]) => ({ kind: 'act', step: { kind, containers } });

  it('JST-34: is done when the pod is gone, going, or has nothing left to end', () => {
    expect(nextTermination({})).toEqual({ kind: 'done' });
    expect(next({ metadata: { deletionTimestamp: createdAt } })).toEqual({ kind: 'done' });
    expect(next({ now: { main: done, proxy: { exitCode: 1 } } })).toEqual({ kind: 'done' });
    expect(next({ now: {} })).toEqual({ kind: 'done' });
  });

  it('JST-10: waits for the Node of the pod', () => {
    const pod = jobPod({ ...one, now: { main: done } });
    expect(nextTermination({ pod })).toMatchObject({
      kind: 'wait',
      waitingFor: { reason: 'NodeMissing', blockedBy: ['node/node-1'] },
    });
  });

  it('JST-12: asks for one stop of all sidecars whose exit codes count, and waits while it is under way', () => {
    const marks = { main: 'main', a: 'sidecar', b: 'both', c: 'ignored' } as const;
    expect(next({ marks })).toEqual(act('requestStop', 'a', 'b'));
    const request = stopRequest(['a', 'b']);
    expect(next({ marks }, { request })).toMatchObject({
      kind: 'wait',
      waitingFor: { reason: 'Stopping', blockedBy: ['crr/sidecar-termination-pod-1'] },
    });
  });

  it('JST-12: a sidecar with an image alone is never stopped on a real node, and holds nobody else up', () => {
    const marks = { main: 'main', proxy: 'image' } as const;
    expect(next({ marks })).toMatchObject({
      kind: 'wait',
      waitingFor: { reason: 'NoStopMark', blockedBy: ['container/proxy'] },
    });
    expect(next({ marks: { ...marks, a: 'sidecar', b: 'ignored' } })).toEqual(act('requestStop', 'a'));
    const ignored = { ...marks, b: 'ignored' } as const;
    expect(next({ marks: ignored })).toEqual(act('finishPod', 'b'));
  });

  it('JST-13, JST-20, JST-20a: those whose exit code is ignored come last: first the phase, then their stop', () => {
    const marks = { main: 'main', a: 'sidecar', b: 'ignored' } as const;
    const now = { main: done, a: { exitCode: 1 } };
    expect(next({ marks, now: { main: done } })).toEqual(act('requestStop', 'a'));
    expect(next({ marks, now })).toEqual(act('finishPod', 'b'));
    expect(next({ marks, now, phase: 'Succeeded' })).toEqual(act('requestStop', 'b'));
  });

  it('JST-20: the pod has succeeded if every main container has', () => {
    const pod = (exitCode: number) =>
      jobPod({ marks: { a: 'main', b: 'main', p: 'ignored' }, now: { a: done, b: { exitCode } } });
    expect([phaseByMains(pod(0)), phaseByMains(pod(7))]).toEqual(['Succeeded', 'Failed']);
  });

  it('JST-20: a second request takes the place of the first, which is done', () => {
    const marks = { main: 'main', a: 'sidecar', b: 'ignored' } as const;
    const given = { marks, now: { main: done, a: { exitCode: 1 } }, phase: 'Succeeded' } as const;
    const request = stopRequest(['a'], { status: stoppedStatus('a') });
    expect(next(given, { request })).toEqual(act('withdrawRequest', 'b'));
  });

  it('JST-11: on a virtual node the image is swapped once, and the exit code decides nothing before', () => {
    const virtual = { node: 'virtual' } as const;
    const marks = { main: 'main', a: 'image', b: 'both' } as const;
    expect(next({ marks }, virtual)).toEqual(act('swapImages', 'a', 'b'));
    expect(next({ marks, images: { a: 'quick-exit:1' } }, virtual)).toEqual(act('swapImages', 'b'));
    expect(next({ marks, images: { a: 'quick-exit:1', b: 'quick-exit:1' } }, virtual)).toMatchObject({
      kind: 'wait',
      waitingFor: { reason: 'QuickExitPending', blockedBy: ['container/a', 'container/b'] },
    });
  });

  it('JST-11: a virtual node that has no image to swap to is named, after the others are swapped', () => {
    const virtual = { node: 'virtual' } as const;
    const marks = { main: 'main', a: 'sidecar', b: 'image' } as const;
    expect(next({ marks }, virtual)).toEqual(act('swapImages', 'b'));
    expect(next({ marks, images: { b: 'quick-exit:1' } }, virtual)).toMatchObject({
      kind: 'wait',
      waitingFor: {
        reason: 'NoQuickExitImage',
        blockedBy: ['container/a'],
        unblock: expect.stringContaining('KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE'),
      },
    });
  });

  it('JST-32: what has never started cannot be stopped; the others are', () => {
    const marks = { main: 'main', a: 'sidecar', b: 'sidecar' } as const;
    expect(next({ marks, now: { main: done, a: 'unstarted', b: 'unstarted' } })).toMatchObject({
      kind: 'wait',
      waitingFor: { reason: 'ContainerNotStarted', blockedBy: ['container/a', 'container/b'] },
    });
    expect(next({ marks, now: { main: done, a: 'unstarted' } })).toEqual(act('requestStop', 'b'));
    const request = stopRequest(['b'], { status: stoppedStatus('b') });
    expect(next({ marks, now: { main: done, b: done } }, { request })).toEqual(act('withdrawRequest', 'a'));
  });

  it('JST-11, JST-32: says why the kubelet does not start a container that has to run first', () => {
    const message = 'failed to pull "quick-exit:1": not found';
    const state = { waiting: { reason: 'ErrImagePull', message } };
    const failing = (pod: Pod): Pod => {
      const containerStatuses = pod.status?.containerStatuses?.map((status) =>
        status.name === 'a' ? { ...status, ready: false, state } : status,
      );
      return { ...pod, status: { ...pod.status, ...(containerStatuses && { containerStatuses }) } };
    };
    const said = (given: Pick<JobPod, 'marks' | 'now' | 'images'>, node: SidecarWorld['node']) => {
      const decision = nextTermination({ pod: failing(jobPod(given)), ...(node && { node }) });
      return decision.kind === 'wait' ? decision.waitingFor : undefined;
    };
    const swapped = {
      marks: { main: 'main', a: 'image' },
      now: { main: done },
      images: { a: 'quick-exit:1' },
    } as const;
    expect(said(swapped, 'virtual')).toMatchObject({
      reason: 'QuickExitPending',
      unblock: `${terminationWaits.QuickExitPending}; a: ErrImagePull: ${message}`,
    });
    const unstarted = { marks: { main: 'main', a: 'sidecar' }, now: { main: done, a: 'unstarted' } } as const;
    expect(said(unstarted, 'real')).toMatchObject({
      reason: 'ContainerNotStarted',
      unblock: expect.stringContaining('; a: ErrImagePull: '),
    });
  });

  it('JST-26: believes a request that has stopped an instance which the pod still shows', () => {
    const request = stopRequest(['proxy'], { status: stoppedStatus('proxy') });
    expect(next({}, { request })).toMatchObject({ kind: 'wait', waitingFor: { reason: 'Stopping' } });
  });

  it('JST-24, JST-27: stops again what the kubelet has started again, each time after a pause', () => {
    for (const instance of [0, 1, 7]) {
      const request = stopRequest(['proxy'], { status: stoppedStatus('proxy'), instance });
      for (const phase of ['Running', 'Succeeded'] as const) {
        const again = { restartPolicy: 'OnFailure', instances: { proxy: instance + 1 }, phase } as const;
        expect(next(again, { request })).toMatchObject({
          kind: 'tryAgain',
          waitingFor: { reason: 'StopFailed', unblock: expect.stringContaining('it has been started again') },
          step: { kind: 'withdrawRequest', containers: ['proxy'] },
          byItself: true,
        });
        expect(next(again)).toEqual(act('requestStop', 'proxy'));
      }
    }
  });

  it('JST-22, JST-24: never writes the phase of a pod whose sidecars are not marked for it, also while they are down', () => {
    const now = (proxy: 'backingOff' | { exitCode: number }) =>
      ({ now: { main: done, proxy }, restartPolicy: 'OnFailure' }) as const;
    const request = stopRequest(['proxy'], { status: stoppedStatus('proxy') });
    for (const state of [now({ exitCode: 143 }), now('backingOff')]) {
      expect(next(state)).toEqual(act('requestStop', 'proxy'));
      expect(next(state, { request })).toMatchObject({ kind: 'wait', waitingFor: { reason: 'Stopping' } });
    }
  });

  it.each([
    ['NodeSilent', 'No daemon answered', 'StopFailed', true],
    ['DeadlineExceeded', 'too late', 'StopFailed', true],
    ['Aborted', 'Aborted by ann', 'RequestAborted', false],
  ])(
    'JST-30: a stop that ended with %s is tried again, unless a person ended it',
    (reason, message, told, byItself) => {
      const conditions = [{ type: 'Failed', status: 'True', reason, message, lastTransitionTime: createdAt }] as const;
      const request = stopRequest(['proxy'], { status: { phase: 'Completed', conditions } });
      expect(next({}, { request })).toMatchObject({
        kind: 'tryAgain',
        waitingFor: { reason: told, blockedBy: ['container/proxy'], unblock: expect.stringContaining(message) },
        step: { kind: 'withdrawRequest', containers: ['proxy'] },
        byItself,
      });
    },
  );

  it('JST-30: a stop that the runtime refused is tried again, and says why', () => {
    const containerRecreateStates = [{ name: 'proxy', phase: 'Failed', message: 'kill container error: no' }] as const;
    const request = stopRequest(['proxy'], { status: { phase: 'Completed', containerRecreateStates } });
    expect(next({}, { request })).toMatchObject({
      kind: 'tryAgain',
      waitingFor: { reason: 'StopFailed', unblock: expect.stringContaining('kill container error: no') },
    });
  });

  it('leaves alone what somebody has skipped', () => {
    const marks = { main: 'main', a: 'sidecar', b: 'sidecar' } as const;
    const annotations = { 'windlass.io/sidecar-termination': JSON.stringify({ skipped: ['a'] }) };
    expect(next({ marks, metadata: { annotations } })).toEqual(act('requestStop', 'b'));
  });
});

describe('the texts', () => {
  it('JST-12: Events say what OpenKruise says', () => {
    expect(terminatingEvent(['b', 'a'], 'crr')).toEqual({
      type: 'Normal',
      reason: 'SidecarTerminator',
      message: 'Kruise SidecarTerminator is trying to terminate sidecar [a b] using crr',
    });
  });

  it('a request is one of these if it bears the name and belongs to the pod', () => {
    const request = stopRequest(['proxy']);
    expect(isTerminationRequest(request)).toBe(true);
    expect(isTerminationRequest({ metadata: { ...request.metadata, ownerReferences: [] } })).toBe(false);
    expect(isTerminationRequest({ metadata: { ...request.metadata, name: 'sidecar-termination-other' } })).toBe(false);
  });

  it('an annotation that nobody can read says nothing', () => {
    const read = (text: string) =>
      terminationStatusOf(jobPod({ ...one, metadata: { annotations: { 'windlass.io/sidecar-termination': text } } }));
    expect([read('7'), read('{"skipped":7,"abortedBy":[],"waitingFor":{}}')]).toEqual([{}, {}]);
  });
});
