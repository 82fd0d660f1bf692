import { describe, expect, it } from '@jest/globals';
import { planCloneSet } from '../../workflows/plan/cloneset/plan.ts';
import { previewUpdate } from '../../workflows/plan/cloneset/preview.ts';
import {
  cloneSet,
  newName,
  oldImage,
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
  it('tells the turn and the containers of each pod that would be updated in place, for a template that is not recorded', () => {
    const set = cloneSet({ template: template('nginx:9'), rollingUpdate: { maxUnavailable: 2 } });
    expect(preview({ set, revisions: [oldRevision], pods: pods('o', 5) })).toEqual(
      [1, 1, 2, 2, 3].map((turn, index) => ({
        pod: `web-o${index + 1}`,
        road: { kind: 'inPlace', containers: [['main']] },
        turn,
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
    expect(of('InPlaceIfPossible')).toEqual([{ pod: 'web-o1', road: { kind: 'recreate', because }, turn: 1 }]);
    expect(of('InPlaceOnly')).toEqual([{ pod: 'web-o1', road: { kind: 'impossible', because }, turn: 1 }]);
  });

  it('keeps pods that are there already, and those that the partition keeps', () => {
    const set = cloneSet({ rollingUpdate: { partition: 2 } });
    const found = preview({ set, pods: [...pods('o', 4), ...fresh(1)] });
    expect(found?.map(({ pod, road }) => `${pod} ${road.kind}`)).toEqual([
      'web-o1 inPlace',
      'web-o2 inPlace',
      'web-o3 kept',
      'web-o4 kept',
      'web-n1 kept',
    ]);
  });

  it('keeps all pods with OnDelete', () => {
    const found = preview({ set: onDelete(cloneSet()), pods: pods('o', 2) });
    expect(found?.map(({ road }) => road.kind)).toEqual(['kept', 'kept']);
  });

  it('tells nothing for a selector that nobody understands', () => {
    const selector = { matchExpressions: [{ key: 'app', operator: 'Like', values: ['w'] }] };
    expect(preview({ set: cloneSet({ selector }) })).toBeUndefined();
  });

  it('begins with the pods that the plan begins with', () => {
    const facts: WorldFacts = { set: cloneSet({ rollingUpdate: { maxUnavailable: 3 } }), pods: pods('o', 5) };
    const started = planCloneSet(world({ ...facts, permit: permit() })).disruption;
    const first = preview(facts)?.filter(({ turn }) => turn === 1);
    expect(first?.map(({ pod }) => pod)).toEqual(
      started.map((step) => (step.kind === 'updatePod' ? step.pod.name : '')),
    );
  });
});
