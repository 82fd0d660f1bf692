import { describe, expect, it } from '@jest/globals';
import type { ImageListPullJob, ImagePullJob } from '../../api/image-pull-job/types.ts';
import { listStatus, listSteps, templateHash } from '../../plan/images/image-list-pull-job.ts';
import { bornAt, bornMs, listJob, pullJob } from '../support/pull-objects.ts';

/** The jobs of a list as the API server has them once they are created. */
function created(list: ImageListPullJob): readonly ImagePullJob[] {
  return listSteps(list, []).create.map(({ metadata, spec }, index) =>
    pullJob(
      { ...spec, imagePullPolicy: 'IfNotPresent' },
      {
        metadata: {
          ...pullJob().metadata,
          name: metadata.name,
          uid: `child-${index}`,
          labels: metadata.labels,
        },
      },
    ),
  );
}

function ended(job: ImagePullJob, succeeded: number, failed = 0): ImagePullJob {
  const counts = { desired: succeeded + failed, active: 0, succeeded, failed };
  return { ...job, status: { ...counts, startTime: bornAt, completionTime: bornAt } };
}

describe('the jobs of a list', () => {
  const list = listJob(['a:1', 'b:2']);

  it('ILP-1, ILP-11: are one for each image, with the whole template, owned by the list and so deleted with it', () => {
    const { create, remove } = listSteps(list, []);
    expect(create.map(({ spec }) => spec.image)).toEqual(['a:1', 'b:2']);
    expect(remove).toEqual([]);
    expect(create[0]).toMatchObject({
      metadata: {
        name: expect.stringMatching(/^tools-/),
        namespace: 'shop',
        labels: { 'controller-revision-hash': templateHash(list) },
        ownerReferences: [{ kind: 'ImageListPullJob', name: 'tools', uid: 'list-1', controller: true }],
      },
      spec: { completionPolicy: { type: 'Always' }, pullPolicy: { timeoutSeconds: 600 } },
    });
    expect(new Set(create.map(({ metadata }) => metadata.name)).size).toBe(2);
    expect(listSteps(list, []).create).toEqual(create);
  });

  it('ILP-3: come and go with the images', () => {
    const children = created(list);
    expect(listSteps(list, children)).toMatchObject({ create: [], remove: [] });
    const changed = listSteps({ ...list, spec: { ...list.spec, images: ['b:2', 'c:3'] } }, children);
    expect(changed.create.map(({ spec }) => spec.image)).toEqual(['c:3']);
    expect(changed.remove.map(({ spec }) => spec.image)).toEqual(['a:1']);
  });

  it('ILP-4: are made anew for another template, and kept without the label when theirs is the same', () => {
    const children = created(list);
    const slower = { ...list, spec: { ...list.spec, parallelism: 7 } };
    const steps = listSteps(slower, children);
    expect([steps.create.length, steps.remove.length]).toEqual([2, 2]);
    const unlabelled = children.map((child) => {
      const { labels: _, ...metadata } = child.metadata;
      return { ...child, metadata };
    });
    expect(listSteps(list, unlabelled).kept).toHaveLength(2);
    expect(listSteps(slower, unlabelled).kept).toHaveLength(0);
  });

  it('are not created while one of the same name is on its way out', () => {
    const [first] = created(list);
    if (!first) throw new Error('no job');
    const going = { ...first, metadata: { ...first.metadata, deletionTimestamp: bornAt } };
    expect(listSteps(list, [going]).create.map(({ spec }) => spec.image)).toEqual(['b:2']);
  });
});

describe('the status of a list', () => {
  const list = listJob(['a:1', 'b:2']);
  const [one, two] = created(list) as [ImagePullJob, ImagePullJob];
  const status = (children: readonly ImagePullJob[], of: ImageListPullJob = list) =>
    listStatus(of, children, { nowMs: bornMs });

  it('counts its jobs, and those that failed somewhere by name', () => {
    const active = { ...two, status: { desired: 2, active: 1, succeeded: 0, failed: 0, startTime: bornAt } };
    expect(status([ended(one, 1, 1), active])).toMatchObject({
      desired: 2,
      active: 1,
      completed: 1,
      succeeded: 0,
      failedImageStatuses: [
        {
          imagePullJob: one.metadata.name,
          name: 'a:1',
          message: expect.stringContaining(`'kubectl get ImagePullJob ${one.metadata.name}'`),
        },
      ],
      waitingFor: { reason: 'Pulling', blockedBy: [`imagepulljob/${two.metadata.name}`] },
    });
    expect(status([one, two])).toMatchObject({ desired: 2, active: 0, completed: 0, succeeded: 0 });
  });

  it('ILP-8: ends when all of its jobs have', () => {
    expect(status([ended(one, 2), ended(two, 2)])).toMatchObject({
      completionTime: bornAt,
      conditions: [{ type: 'Complete', reason: 'ImagesPulled' }],
    });
    expect(status([ended(one, 2), ended(two, 1, 1)]).conditions).toMatchObject([
      { type: 'Failed', reason: 'ImagesFailed' },
    ]);
    expect(status([ended(one, 2)]).completionTime).toBeUndefined();
  });

  it('ILP-10: never ends with type Never', () => {
    const never = { ...list, spec: { ...list.spec, completionPolicy: { type: 'Never' } } };
    expect(status([ended(one, 2), ended(two, 2)], never).completionTime).toBeUndefined();
  });

  it('ILP-9: says which image the API server takes no job for, and why', () => {
    const refusal = { reason: 'Invalid', message: 'activeDeadlineSeconds is too short' } as const;
    const context = { nowMs: bornMs, refusal, refused: ['a:1'] };
    expect(listStatus(list, [], context).waitingFor).toMatchObject({
      reason: 'JobRefused',
      blockedBy: ['image/a:1'],
      unblock: 'Fix the spec: activeDeadlineSeconds is too short',
    });
    const denied = { reason: 'Denied', message: 'exceeded quota' } as const;
    expect(listStatus(list, [], { ...context, refusal: denied }).waitingFor?.unblock).toBe('exceeded quota');
  });
});
