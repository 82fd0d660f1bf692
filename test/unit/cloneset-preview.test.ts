import { describe, expect, it } from '@jest/globals';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
import { previewSet, previewUpdate } from '../../plan/cloneset/preview.ts';
import {
  cloneSet,
  newImage,
  newName,
  newRevisionOfSet,
  oldImage,
  oldName,
  oldRevision,
  onDelete,
  permit,
  pods,
  template,
  type WorldFacts,
  world,
} from '../support/cloneset-world.ts';

const preview = (facts: WorldFacts) => previewUpdate(world(facts));
const fresh = (count: number) => pods('n', count, { revision: newName });

describe('previewUpdate', () => {
  it('tells the batch and the containers of each pod that would be updated in place, for a template that is not recorded', () => {
    const set = cloneSet({ template: template('nginx:9'), rollingUpdate: { maxUnavailable: 2 } });
    expect(preview({ set, revisions: [oldRevision], pods: pods('o', 5) })).toEqual(
      [1, 1, 2, 2, 3].map((batch, index) => ({
        pod: `web-o${index + 1}`,
        path: { kind: 'inPlace', containers: [['main']] },
        batch,
      })),
    );
  });

  it('names the field that forces a new pod, or forbids the update', () => {
    const because = { path: 'spec.template.spec.hostNetwork', reason: 'FieldNeedsNewPod' };
    const of = (podUpdatePolicy: 'InPlaceIfPossible' | 'InPlaceOnly') =>
      preview({
        set: cloneSet({ template: template(oldImage, { hostNetwork: true }), rollingUpdate: { podUpdatePolicy } }),
        revisions: [oldRevision],
        pods: pods('o', 1),
      });
    expect(of('InPlaceIfPossible')).toEqual([{ pod: 'web-o1', path: { kind: 'recreate', because }, batch: 1 }]);
    expect(of('InPlaceOnly')).toEqual([{ pod: 'web-o1', path: { kind: 'impossible', because }, batch: 1 }]);
  });

  it('keeps pods that are there already, and those that the partition keeps', () => {
    const set = cloneSet({ rollingUpdate: { partition: 2 } });
    const found = preview({ set, pods: [...pods('o', 4), ...fresh(1)] });
    expect(found?.map(({ pod, path }) => `${pod} ${path.kind}`)).toEqual([
      'web-o1 inPlace',
      'web-o2 inPlace',
      'web-o3 kept',
      'web-o4 kept',
      'web-n1 kept',
    ]);
  });

  it('keeps all pods with OnDelete', () => {
    const found = preview({ set: onDelete(cloneSet()), pods: pods('o', 2) });
    expect(found?.map(({ path }) => path.kind)).toEqual(['kept', 'kept']);
  });

  it('tells nothing for a selector that nobody understands', () => {
    const selector = { matchExpressions: [{ key: 'app', operator: 'Like', values: ['w'] }] };
    expect(preview({ set: cloneSet({ selector }) })).toBeUndefined();
  });

  it('begins with the pods that the plan begins with', () => {
    const facts: WorldFacts = { set: cloneSet({ rollingUpdate: { maxUnavailable: 3 } }), pods: pods('o', 5) };
    const started = planCloneSet(world({ ...facts, permit: permit() })).disruption;
    const first = preview(facts)?.filter(({ batch }) => batch === 1);
    expect(first?.map(({ pod }) => pod)).toEqual(
      started.map((step) => (step.kind === 'updatePod' ? step.pod.name : '')),
    );
  });
});

describe('previewSet', () => {
  /** How often the templates of the revisions are read during a preview. */
  function readsFor(replicas: number) {
    let reads = 0;
    const revisions = [oldRevision, newRevisionOfSet].map((revision) => ({
      ...revision,
      get data() {
        reads++;
        return revision.data;
      },
    }));
    const found = previewSet(world({ set: cloneSet({ replicas }), revisions, pods: pods('o', 5) }));
    return { reads, found };
  }

  it('builds as many pods for millions of replicas as for a few', () => {
    const few = readsFor(8);
    expect(few.found?.created).toEqual([{ revision: newName, count: 3 }]);
    const most = readsFor(2 ** 31 - 1);
    expect(most.found?.created).toEqual([{ revision: newName, count: 2 ** 31 - 6 }]);
    expect(most.reads).toBe(few.reads);
    expect(most.found?.updated).toEqual(few.found?.updated);
  });

  it('tells how many are made of the old revision and how many of the new one', () => {
    const set = cloneSet({ replicas: 3_000_000, rollingUpdate: { partition: 1_000_000 } });
    const found = previewSet(world({ set, pods: [...pods('o', 2), ...fresh(3)] }));
    expect(found?.created).toEqual([
      { revision: oldName, count: 999_998 },
      { revision: newName, count: 1_999_997 },
    ]);
    expect(found?.updated.map(({ path }) => path.kind)).toEqual(['kept', 'kept', 'kept', 'kept', 'kept']);
  });

  it('CS-54: pods that are to be made count for how pods are scattered', () => {
    const there = [...pods('r', 2, { labels: { color: 'red' } }), ...pods('b', 4)];
    const scatterStrategy = [{ key: 'color', value: 'red' }];
    const red = template(newImage, {}, { labels: { app: 'web', color: 'red' } });
    const order = (replicas: number) => {
      const set = cloneSet({ replicas, template: red, rollingUpdate: { scatterStrategy } });
      return previewSet(world({ set, pods: there }))?.updated.map(({ pod }) => pod);
    };
    expect(order(6)).toEqual(['web-r1', 'web-b1', 'web-b2', 'web-b3', 'web-b4', 'web-r2']);
    expect(order(12)).toEqual(['web-b1', 'web-b2', 'web-b3', 'web-b4', 'web-r1', 'web-r2']);
  });
});
