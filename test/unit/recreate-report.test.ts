import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import type {
  ContainerRecreateRequestStatus,
  ContainerRecreateState,
} from '../../api/container-recreate-request/types.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import {
  mergedStatus,
  overwritten,
  type ReportedStatus,
  reportedBefore,
  type StatusDelta,
  sameStatus,
  statusDelta,
  withDelta,
} from '../../plan/recreate/report.ts';

const at = '2026-01-01T00:00:00Z';

function wait(reason = 'Stopping', blockedBy: readonly string[] = ['container/app']): WaitingFor {
  return { reason, blockedBy, blockedCount: blockedBy.length, since: at, unblock: 'Nothing to do' };
}

function reported(overrides: Partial<ReportedStatus> = {}): ReportedStatus {
  return { phase: 'Recreating', message: '', states: [], snapshot: [], ...overrides };
}

function state(name: string, overrides: Partial<ContainerRecreateState> = {}): ContainerRecreateState {
  return { name, phase: 'Pending', ...overrides };
}

function delta(overrides: Partial<StatusDelta> = {}): StatusDelta {
  return { states: [], snapshot: [], ...overrides };
}

function merged(
  live: ContainerRecreateRequestStatus | undefined,
  change: Partial<StatusDelta>,
  containers = ['a', 'b', 'c'],
): ContainerRecreateRequestStatus {
  return mergedStatus(live, delta(change), { containers, generation: 1, at });
}

const completed: Partial<StatusDelta> = {
  phase: 'Completed',
  message: 'pod has gone',
  completionTime: at,
  condition: { type: 'Failed', reason: 'PodGone', message: 'gone' },
};

describe('statusDelta', () => {
  it('names only what has changed', () => {
    const before = reported({ states: [state('a'), state('b')], waitingFor: wait() });
    const after = { ...before, states: [state('a', { phase: 'Recreating', isKilled: true }), state('b')] };
    expect(statusDelta(before, after)).toEqual({
      states: [{ name: 'a', phase: 'Recreating', isKilled: true }],
      snapshot: [],
    });
    expect(statusDelta(before, before)).toEqual({ states: [], snapshot: [] });
  });

  it('says that a wait is over', () => {
    expect(statusDelta(reported({ waitingFor: wait() }), reported())).toMatchObject({ waitingFor: null });
  });

  it('writes the end last', () => {
    const names = Array.from({ length: 60 }, (_, index) => `${index}-`.padEnd(63, 'x'));
    const after = reported({ phase: 'Completed', completionTime: at, states: names.map((name) => state(name)) });
    const first = statusDelta(reported(), after);
    expect(first).not.toHaveProperty('phase');
    expect(first.states.length).toBeGreaterThan(10);
  });

  const text = fc.string({ unit: 'grapheme', maxLength: 120 });
  const name = fc.integer({ min: 0, max: 59 }).map((index) => `${index}-`.padEnd(63, 'x'));
  const anyState = fc.record<ContainerRecreateState>(
    {
      name,
      phase: fc.constantFrom('Pending', 'Recreating', 'Succeeded', 'Failed'),
      message: text,
      isKilled: fc.constant(true),
      targetContainerID: fc.constant('f'.repeat(64)),
    },
    { requiredKeys: ['name', 'phase'] },
  );
  const anySnapshot = fc.record({
    name,
    ready: fc.constant(true),
    restartCount: fc.nat(),
    containerID: fc.constant(`containerd://${'f'.repeat(64)}`),
  });
  const byName = { selector: (entry: { readonly name: string }) => entry.name, maxLength: 60 };
  const anyStatus: fc.Arbitrary<ReportedStatus> = fc.record(
    {
      phase: fc.constantFrom('', 'Pending', 'Recreating', 'Completed'),
      message: text,
      states: fc.uniqueArray(anyState, byName),
      snapshot: fc.uniqueArray(anySnapshot, byName),
      waitingFor: fc.record({
        reason: fc.constantFrom('Stopping', 'Paused', 'ContainerNotReady'),
        blockedBy: fc.array(name, { maxLength: 10 }),
        blockedCount: fc.nat(60),
        since: fc.constant(at),
        unblock: text,
      }),
      completionTime: fc.constant(at),
      condition: fc.record({
        type: fc.constant('Failed' as const),
        reason: fc.constant('Aborted' as const),
        message: fc.string({ unit: 'grapheme', maxLength: 300 }),
      }),
    },
    { requiredKeys: ['phase', 'message', 'states', 'snapshot'] },
  );
  const longest = { namespace: 'n'.repeat(63), name: 'r'.repeat(253), uid: 'u'.repeat(36) };

  it('gets from any status to any other in few reports of at most 4 KB, for 60 containers with long names', () => {
    fc.assert(
      fc.property(anyStatus, anyStatus, (from, to) => {
        let written = from;
        let reports = 0;
        for (; !sameStatus(written, to); reports++) {
          const change = statusDelta(written, to);
          expect(jsonBytes({ request: longest, delta: change })).toBeLessThanOrEqual(4 * 1024);
          written = withDelta(written, change);
          expect(reports).toBeLessThan(20);
        }
        expect(written.phase).toBe(to.phase);
        expect(written.waitingFor).toEqual(to.waitingFor);
      }),
      { numRuns: 100 },
    );
  });

  it('brings the live status to what is wanted, whatever stood there, and never takes back its phase', () => {
    const rank = ['', 'Pending', 'Recreating', 'Completed'];
    const open = anyStatus.map(({ completionTime: _, condition: __, ...status }) => ({
      ...status,
      phase: 'Recreating' as const,
      states: status.states.map(({ isKilled: ___, ...rest }) => rest),
    }));
    fc.assert(
      fc.property(fc.array(open, { minLength: 1, maxLength: 4 }), fc.boolean(), (steps, ends) => {
        let written = reportedBefore({ phase: '' });
        let live: ContainerRecreateRequestStatus | undefined;
        const last = steps.at(-1);
        const end = { ...reported(last), phase: 'Completed' as const, completionTime: at };
        const names = Array.from({ length: 60 }, (_, index) => `${index}-`.padEnd(63, 'x'));
        for (const wanted of ends ? [...steps, end] : steps) {
          while (!sameStatus(written, wanted)) {
            const change = statusDelta(written, wanted);
            const before = live?.phase ?? '';
            live = merged(live, change, names);
            written = withDelta(written, change);
            expect(rank.indexOf(live.phase)).toBeGreaterThanOrEqual(rank.indexOf(before));
          }
          expect(live?.phase).toBe(wanted.phase);
          if (wanted.phase !== 'Completed') expect(live?.waitingFor).toEqual(wanted.waitingFor);
          for (const { name: each, phase } of wanted.states) {
            const now = live?.containerRecreateStates?.find((entry) => entry.name === each);
            expect([phase, 'Succeeded']).toContain(now?.phase);
          }
        }
      }),
      { numRuns: 50 },
    );
  });
});

describe('mergedStatus', () => {
  it('keeps containers in the order of the request', () => {
    const first = merged(undefined, { states: [state('c'), state('a')] });
    const second = merged(first, { states: [state('b')], snapshot: [{ name: 'b', ready: true, restartCount: 1 }] });
    expect(second.containerRecreateStates?.map(({ name }) => name)).toEqual(['a', 'b', 'c']);
    expect(second.observedGeneration).toBe(1);
  });

  it('CRR-13: takes states of containers into a completed request, and nothing else', () => {
    const done = merged({ phase: 'Recreating' }, { ...completed, states: [state('a')] });
    const late = merged(done, {
      phase: 'Recreating',
      message: 'else',
      waitingFor: wait(),
      condition: { type: 'Complete', reason: 'ContainersRecreated', message: '' },
      states: [state('a', { phase: 'Recreating', isKilled: true })],
    });
    expect(late).toEqual({
      ...done,
      containerRecreateStates: [{ name: 'a', phase: 'Recreating', isKilled: true }],
    });
  });

  it('ends every wait with the request, whoever wrote it', () => {
    const live = { phase: 'Recreating', waitingFor: wait() } as const;
    expect(merged(live, completed).waitingFor).toBeUndefined();
  });

  it('leaves out an empty message, which is how a normal end is told', () => {
    expect(merged({ phase: 'Recreating' }, { phase: 'Completed', message: '' })).not.toHaveProperty('message');
  });

  it('keeps other conditions beside the one of the end', () => {
    const drain = {
      type: 'PreRecreateGrace',
      status: 'True',
      reason: 'x',
      message: 'y',
      lastTransitionTime: at,
    } as const;
    const done = merged({ phase: 'Recreating', conditions: [drain] }, completed);
    expect(done.conditions).toMatchObject([drain, { type: 'Failed', status: 'True', lastTransitionTime: at }]);
  });

  it('takes nothing back for a report that was held up on its way', () => {
    const live = {
      phase: 'Recreating',
      containerRecreateStates: [
        state('a', { phase: 'Succeeded', isKilled: true }),
        state('b', { phase: 'Pending', targetContainerID: 'b-7' }),
        state('c', { phase: 'Recreating', isKilled: true }),
      ],
    } as const;
    const late = merged(live, { states: [state('a', { phase: 'Recreating' }), state('b'), state('c')] });
    expect(late.containerRecreateStates).toEqual([
      state('a', { phase: 'Succeeded', isKilled: true }),
      state('b', { targetContainerID: 'b-7' }),
      state('c', { phase: 'Recreating', isKilled: true }),
    ]);
  });

  it('lets go of what the watcher wrote as long as nobody worked on the request', () => {
    for (const reason of ['Queued', 'EngineSilent', 'EngineStuck']) {
      const live = { phase: 'Pending', waitingFor: wait(reason, ['crr/other']) } as const;
      expect(merged(live, { phase: 'Recreating' }).waitingFor).toBeUndefined();
      expect(merged(live, { waitingFor: wait() }).waitingFor).toEqual(wait());
    }
    expect(merged({ phase: 'Recreating', waitingFor: wait() }, { states: [state('a')] }).waitingFor).toEqual(wait());
  });
});

describe('overwritten', () => {
  it('takes what the watcher wrote over a report for written, so that the report is made again', () => {
    const told = reported({ waitingFor: wait() });
    for (const reason of ['EngineSilent', 'EngineStuck']) {
      const found = overwritten(told, wait(reason, ['temporal']));
      expect(sameStatus(found, told)).toBe(false);
      expect(statusDelta(found, told)).toMatchObject({ waitingFor: { reason: 'Stopping' } });
    }
  });

  it('believes nobody else', () => {
    const told = reported({ waitingFor: wait() });
    expect(overwritten(told, wait('Draining'))).toBe(told);
    expect(overwritten(told, undefined)).toBe(told);
  });
});

describe('reportedBefore', () => {
  it('knows the phase and the wait that an earlier run or the watcher has left', () => {
    expect(reportedBefore({ phase: 'Pending', waitingFor: wait('Queued') })).toEqual(
      reported({ phase: 'Pending', waitingFor: wait('Queued') }),
    );
  });
});
