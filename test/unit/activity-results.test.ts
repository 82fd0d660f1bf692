import { describe, expect, it } from '@jest/globals';
import { ActivityFailure, ApplicationFailure, TimeoutFailure, type TimeoutType } from '@temporalio/common';
import { containerActivities } from '../../activities/cri/containers.ts';
import { imageActivities } from '../../activities/cri/images.ts';
import type { FleetActivities } from '../../activities/fleet/contract.ts';
import { batchOf } from '../../plan/fleet/batch.ts';
import { clusterActivities } from '../../workers/cluster-worker.ts';
import { reasonOf } from '../../workflows/shared/refusals.ts';
import { type ActivityName, activityResults, checkedResult } from '../../workflows/shared/results.ts';

const nobody = {} as never;

describe('the list of activity results', () => {
  it('F5: has a row for every activity that a worker registers, and for no other', () => {
    const fleet = {
      'fleet.v1.next': nobody,
      'fleet.v1.carryOutBatch': nobody,
      'fleet.v1.applyCommand': nobody,
      'fleet.v1.nextNodes': nobody,
      'fleet.v1.awaitNodes': nobody,
      'fleet.v1.lookAtSwap': nobody,
      'fleet.v1.swapStep': nobody,
      'fleet.v1.awaitSwap': nobody,
    } satisfies Record<keyof FleetActivities, never>;
    const registered = {
      ...clusterActivities({ client: nobody, kube: nobody, log: nobody, now: () => new Date(0) }),
      ...fleet,
      ...containerActivities(nobody),
      ...imageActivities(nobody),
    };
    expect(new Set(Object.keys(activityResults))).toEqual(new Set(Object.keys(registered)));
  });

  const wait = { reason: 'Paused', blockedBy: ['a'], blockedCount: 1, since: 'now', unblock: 'b' };
  const facts = {
    ...{ generation: 3, revision: 'web-2', previous: 'web-1', replicas: 5 },
    orders: { version: 1, revision: 'web-2', paused: { by: 'ann', at: '2026-11-22T10:00:00Z' }, skip: ['web-0'] },
  };
  const batch = batchOf('web-2', [
    { namespace: 'shop', name: 'web-0', uid: 'a', how: 'inPlace', containers: [['app']] },
  ]);
  const named = { kind: 'pods', batches: [batch], more: false, of: 5, updated: 2 };
  const through = { summary: '', pods: [{ pod: 'web-0', how: 'recreate', why: 'it is gone' }] };
  const good: readonly (readonly [ActivityName, unknown])[] = [
    ['lookAtRequest', { kind: 'gone' }],
    ['fleet.v1.nextNodes', { kind: 'nodes', waves: [['node-1']], more: false, image: 'nginx:1.27', of: 1, ended: 0 }],
    ['fleet.v1.nextNodes', { kind: 'wait', waitingFor: wait, order: { term: 'one', nth: 3 } }],
    ['fleet.v1.nextNodes', { kind: 'withdrawn' }],
    ['fleet.v1.awaitNodes', { nodes: [{ node: 'node-1', why: 'not found' }], next: { kind: 'nothing' } }],
    ['fleet.v1.lookAtSwap', { kind: 'open', stage: 'begin', incoming: [], outgoing: [], target: 'hash' }],
    ['fleet.v1.swapStep', { kind: 'written', at: '2026-11-22T10:00:00Z' }],
    ['fleet.v1.awaitSwap', { kind: 'blocked', waitingFor: wait }],
    ['reportRequest', undefined],
    ['fleet.v1.next', { ...named, facts }],
    ['fleet.v1.next', { kind: 'nothing', facts }],
    ['fleet.v1.next', { kind: 'wait', waitingFor: wait }],
    ['fleet.v1.next', { kind: 'done', summary: '5 of 5', facts }],
    ['fleet.v1.next', { kind: 'withdrawn' }],
    ['fleet.v1.next', { kind: 'aborted', summary: '1 of 3', isIdle: true }],
    ['fleet.v1.carryOutBatch', { ...through, next: named }],
    ['fleet.v1.carryOutBatch', { ...through, next: { kind: 'nothing', facts } }],
    ['fleet.v1.applyCommand', { by: 'ann', answer: {} }],
    [
      'fleet.v1.applyCommand',
      { by: 'ann', answer: { target: 'web-0' }, next: { kind: 'wait', waitingFor: wait, facts } },
    ],
    ['node.v1.stopContainer', { kind: 'stopped', preStop: 'ran', fromNewerRelease: true }],
    ['takeOutOfService', { since: '2026-11-22T10:00:00Z', isHeld: false }],
  ];
  it.each(good)('takes what %s answers', (name, value) => {
    expect(checkedResult(name, value)).toBe(value);
  });

  const wrong: readonly (readonly [ActivityName, unknown, string])[] = [
    ['lookAtRequest', null, 'result must be an object'],
    ['lookAtRequest', { kind: 'lost' }, 'result.kind must be one of "gone", "finished", "open"'],
    ['fleet.v1.nextNodes', 7, 'result must be an object'],
    ['fleet.v1.nextNodes', { kind: 'nodes', waves: ['a'] }, 'result.waves[0] must be a list'],
    ['fleet.v1.awaitNodes', { nodes: [] }, 'result.next must be an object'],
    [
      'fleet.v1.next',
      { kind: 'wait', waitingFor: { ...wait, blockedBy: [1] } },
      'result.waitingFor.blockedBy[0] must be a string',
    ],
    ['fleet.v1.next', { ...named, updated: '5' }, 'result.updated must be a number'],
    [
      'fleet.v1.next',
      { ...named, batches: [{ ...batch, pods: [{ name: 'web-0' }] }] },
      'result.batches[0].pods[0].uid must be a string',
    ],
    [
      'fleet.v1.next',
      { kind: 'done', summary: '', facts: { ...facts, generation: '3' } },
      'result.facts.generation must be a number',
    ],
    [
      'fleet.v1.next',
      { kind: 'batch' },
      'result.kind must be one of "pods", "nothing", "wait", "done", "aborted", "withdrawn"',
    ],
    ['fleet.v1.carryOutBatch', through, 'result.next must be an object'],
    ['fleet.v1.carryOutBatch', { ...through, next: { kind: 'done' } }, 'result.next.summary must be a string'],
    ['fleet.v1.applyCommand', { by: 'ann', answer: {}, next: { kind: 'pods' } }, 'result.next.batches must be a list'],
    ['fleet.v1.carryOutBatch', null, 'result must be an object'],
    ['node.v1.lookAtContainers', { kind: 'seen', instances: {} }, 'result.instances must be a list'],
    ['takeOutOfService', { since: 'soon', isHeld: false }, 'result.since must be a time'],
    ['identifySignal', undefined, 'result must be a string'],
  ];
  it.each(wrong)('F5: refuses what %s cannot have answered: %j', (name, value, problem) => {
    expect(() => checkedResult(name, value)).toThrow(
      expect.objectContaining({
        type: 'Invalid',
        nonRetryable: true,
        message: `Cannot use the result of activity "${name}": ${problem}`,
      }),
    );
  });
});

describe('the reason of a step that has failed', () => {
  const failed = (cause?: Error) =>
    new ActivityFailure('Activity task failed', 'stop', '1', 'NON_RETRYABLE_FAILURE', '', cause);
  const timedOut = (type: TimeoutType) => reasonOf(failed(new TimeoutFailure('activity timeout', undefined, type)));

  it('F5: is a silent node only when the task was not started, or its heartbeats have stopped', () => {
    expect(timedOut('SCHEDULE_TO_START')).toEqual({ kind: 'nodeSilent' });
    expect(timedOut('HEARTBEAT')).toEqual({ kind: 'nodeSilent' });
    expect(timedOut('START_TO_CLOSE')).toEqual({
      kind: 'away',
      message: 'It started but did not complete in time: activity timeout',
    });
  });

  it('F5: is a refusal when its type is unknown', () => {
    const refused = { kind: 'refused', reason: 'Invalid' };
    expect(reasonOf(failed(ApplicationFailure.nonRetryable('by hand')))).toEqual({ ...refused, message: 'by hand' });
    expect(reasonOf(failed(ApplicationFailure.nonRetryable('x', 'TypeError')))).toMatchObject(refused);
    expect(reasonOf(failed())).toEqual({ ...refused, message: 'Activity task failed' });
  });

  it('is not classified for an error of the workflow itself, which is a bug', () => {
    const bug = new TypeError('x is undefined');
    expect(() => reasonOf(bug)).toThrow(bug);
  });
});
