import { describe, expect, it } from '@jest/globals';
import type { CloneSet, InPlaceUpdateStrategy } from '../../api/cloneset/types.ts';
import { windlassAnnotation } from '../../api/core/well-known.ts';
import type { FeatureGate } from '../../api/feature-gates.ts';
import { type ControllerRevision, shortHash } from '../../api/fleet/revision.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { defaultPullJob } from '../../api/image-pull-job/defaults.ts';
import type { ImagePullJob } from '../../api/image-pull-job/types.ts';
import { validatePullJob } from '../../api/image-pull-job/validate.ts';
import type { ImageTagStatus, NodeImage } from '../../api/node-image/types.ts';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
import type { Intention } from '../../plan/fleet/steps.ts';
import { meantNodes } from '../../plan/images/image-pull-job.ts';
import {
  cloneSet,
  earlier,
  heldByOperator,
  newImage,
  newName,
  newRevisionOfSet,
  now,
  oldName,
  oldRevision,
  onDelete,
  pod,
  pods,
  revisionOf,
  type SpecChange,
  setUid,
  template,
  type WorldFacts,
  world,
} from '../support/cloneset-world.ts';
import { permitForAll } from '../support/permits.ts';
import { endedTag, nodeImage, pullJob, tagOf } from '../support/pull-objects.ts';

const gates: readonly FeatureGate[] = ['PreDownloadImageForInPlaceUpdate', 'ImagePullJobGate'];
const created = { metadata: { labels: { 'apps.kruise.io/pre-predownload-created': 'true' } } };
const ignored = { metadata: { labels: { 'apps.kruise.io/image-predownload-ignored': 'true' } } };

function plan(facts: WorldFacts) {
  return planCloneSet(world({ gates, pods: pods('o', 5), ...facts }));
}

/** The steps about jobs and marks. */
function wanted(facts: WorldFacts): readonly Intention[] {
  const kinds = ['preDownload', 'deletePullJob', 'patchRevision'];
  return plan(facts).upkeep.filter(({ kind }) => kinds.includes(kind));
}

/** The jobs to be created. */
function jobs(facts: WorldFacts): readonly ImagePullJob[] {
  return wanted(facts).flatMap((step) =>
    step.kind === 'preDownload' ? (JSON.parse(JSON.stringify(step.jobs)) as ImagePullJob[]) : [],
  );
}

function marked(revision: ControllerRevision, labels: Readonly<Record<string, string>>): ControllerRevision {
  const { metadata } = revision;
  return { ...revision, metadata: { ...metadata, labels: { ...metadata.labels, ...labels } } };
}

function inPlace(inPlaceUpdateStrategy: InPlaceUpdateStrategy): CloneSet {
  return cloneSet({ rollingUpdate: { inPlaceUpdateStrategy } });
}

/** A job of the CloneSet, as stored. */
function known(name: string, deleting = false): ImagePullJob {
  const { metadata, ...job } = pullJob({ image: newImage });
  const identity = { name, uid: `${name}-uid`, resourceVersion: '7', creationTimestamp: now };
  return { ...job, metadata: { ...metadata, ...identity, ...(deleting && { deletionTimestamp: now }) } };
}

describe('images pulled ahead', () => {
  it('CS-101, PRE-1, PRE-2: are jobs that are made once for each revision, which is marked then', () => {
    const step = { kind: 'preDownload', revision: { name: newName }, marks: created };
    expect(wanted({})).toMatchObject([step]);
    for (const label of [created, ignored]) {
      const revisions = [oldRevision, marked(newRevisionOfSet, label.metadata.labels as Record<string, string>)];
      expect(wanted({ revisions })).toEqual([]);
    }
  });

  it('CS-100: take both feature gates', () => {
    expect(wanted({ gates: [] })).toEqual([]);
    expect(wanted({ gates: ['PreDownloadImageForInPlaceUpdate'] })).toEqual([]);
    const off = { ...world({ gates }).gates, KruiseDaemon: false };
    expect(wanted({ more: { gates: off } })).toEqual([]);
  });

  it('CS-102, PRE-6: are pulled on nodes whose pods are of other revisions, as the kubelet would for the pods', () => {
    const metadata = { labels: { app: 'web', tier: 'front' }, annotations: { team: 'a' } };
    const secrets = { imagePullSecrets: [{ name: 'registry' }] };
    const set = cloneSet({ template: template(newImage, secrets, metadata) });
    const before = revisionOf(set, 1, template('nginx:1.0', secrets, metadata));
    const after = revisionOf(set, 2);
    const hash = after.metadata.labels?.['controller.kubernetes.io/hash'] ?? '';
    const status = { currentRevision: before.metadata.name };
    const [job, ...others] = jobs({
      set: { ...set, ...cloneSet({}, { status }), spec: set.spec },
      revisions: [before, after],
    });
    expect(others).toEqual([]);
    const labels = { app: 'web', tier: 'front', 'controller.kubernetes.io/hash': hash };
    expect(job).toEqual({
      apiVersion: 'apps.kruise.io/v1beta1',
      kind: 'ImagePullJob',
      metadata: {
        namespace: 'shop',
        name: `${after.metadata.name}-main`,
        labels,
        ownerReferences: [
          {
            ...{ apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', name: 'web', uid: setUid },
            ...{ controller: true, blockOwnerDeletion: true },
          },
        ],
      },
      spec: {
        image: newImage,
        podSelector: {
          matchLabels: { app: 'web' },
          matchExpressions: [
            { key: 'controller-revision-hash', operator: 'NotIn', values: [after.metadata.name, hash] },
          ],
        },
        parallelism: 1,
        pullPolicy: { timeoutSeconds: 300, backoffLimit: 1 },
        completionPolicy: { type: 'Always', ttlSecondsAfterFinished: 600 },
        pullSecrets: ['registry'],
        sandboxConfig: { labels, annotations: { team: 'a' } },
      },
    });
  });

  it('H4: hand on labels alone where the annotations of the pods are more than a job may hand to a runtime', () => {
    const metadata = { labels: { app: 'web' }, annotations: { config: 'x'.repeat(5_000) } };
    const set = cloneSet({ template: template(newImage, {}, metadata) });
    const before = revisionOf(set, 1, template('nginx:1.0', {}, metadata));
    const after = revisionOf(set, 2);
    const status = { currentRevision: before.metadata.name };
    const [job] = jobs({
      set: { ...set, ...cloneSet({}, { status }), spec: set.spec },
      revisions: [before, after],
    });
    expect(job?.spec.sandboxConfig).toEqual({ labels: job?.metadata.labels });
    expect(validatePullJob(defaultPullJob(JSON.parse(JSON.stringify(job)), true))).toEqual([]);
  });

  it('PRE-5: are those of containers whose image differs', () => {
    const of = (main: string, helper: string) => ({
      metadata: { labels: { app: 'web' } },
      spec: {
        containers: [
          { name: 'main', image: main },
          { name: 'helper', image: helper },
          { name: 'same', image: 'x:1' },
        ],
      },
    });
    const set = cloneSet({ template: of('nginx:1.1', 'log:2') });
    const [before, after] = [revisionOf(set, 1, of('nginx:1.0', 'log:1')), revisionOf(set, 2)];
    const given = cloneSet({}, { status: { currentRevision: before.metadata.name } });
    const made = jobs({ set: { ...given, spec: set.spec }, revisions: [before, after] });
    expect(made.map(({ metadata, spec }) => [metadata.name, spec.image])).toEqual([
      [`${after.metadata.name}-main`, 'nginx:1.1'],
      [`${after.metadata.name}-helper`, 'log:2'],
    ]);
  });

  it('PRE-5: are none where only metadata changes, which is decided all the same', () => {
    const set = cloneSet({ template: template('nginx:1.0', {}, { labels: { app: 'web', tier: 'front' } }) });
    const after = revisionOf(set, 2);
    expect(wanted({ set, revisions: [oldRevision, after] })).toEqual([
      { kind: 'patchRevision', revision: expect.objectContaining({ name: after.metadata.name }), patch: created },
    ]);
  });

  it('CS-103: go as the set says', () => {
    const set = inPlace({ imagePreDownloadParallelism: '3', imagePreDownloadTimeoutSeconds: 60 });
    expect(jobs({ set })).toMatchObject([{ spec: { parallelism: '3', pullPolicy: { timeoutSeconds: 60 } } }]);
    const zero = inPlace({ imagePreDownloadParallelism: 0 });
    expect(jobs({ set: zero })).toMatchObject([{ spec: { parallelism: 0 } }]);
  });

  const unworthy: readonly (readonly [string, CloneSet])[] = [
    ['ReCreate', cloneSet({ rollingUpdate: { podUpdatePolicy: 'ReCreate' } })],
    ['OnDelete', onDelete(cloneSet())],
    ['three pods', cloneSet({ replicas: 3 })],
    ['one batch', cloneSet({ rollingUpdate: { maxUnavailable: '100%' } })],
    ['a change that needs new pods', cloneSet({ template: template(newImage, { hostNetwork: true }) })],
  ];
  it.each(unworthy)('CS-101: are not worth a job with %s, which is marked, too', (_, set) => {
    expect(wanted({ set })).toEqual([{ kind: 'patchRevision', revision: expect.anything(), patch: ignored }]);
  });

  it('CS-101: are worth one when the partition splits what would be one batch', () => {
    const change: SpecChange = { rollingUpdate: { maxUnavailable: '100%', partition: 1 } };
    expect(jobs({ set: cloneSet(change) })).toHaveLength(1);
  });

  it('PRE-3: wait, undecided, until so many pods of the revision are ready', () => {
    const set = inPlace({ imagePreDownloadMinUpdatedReadyPods: 1 });
    expect(wanted({ set })).toEqual([]);
    const one = (ready: boolean) => [...pods('o', 4), pod('web-new', { revision: newName, ready })];
    expect(wanted({ set, pods: one(false) })).toEqual([]);
    expect(jobs({ set, pods: one(true) })).toHaveLength(1);
  });

  it('CS-104, PRE-4: end with the update, and with one that is taken back', () => {
    const more = { pullJobs: [known('one'), known('two', true)] };
    const done = cloneSet({}, { status: { currentRevision: newName, updateRevision: newName } });
    const updated = pods('n', 5, { revision: newName });
    expect(wanted({ set: done, pods: updated, more })).toEqual([
      {
        kind: 'deletePullJob',
        job: { namespace: 'shop', name: 'one', uid: 'one-uid', resourceVersion: '7' },
      },
    ]);
    const back = cloneSet({ template: template('nginx:1.0') });
    const revisions = [newRevisionOfSet, { ...oldRevision, revision: 3 }];
    expect(wanted({ set: back, revisions, more })).toMatchObject([{ kind: 'deletePullJob' }]);
    expect(wanted({ more: { pullJobs: [known(`${newName}-main`)] } })).toMatchObject([{ kind: 'patchRevision' }]);
  });

  it('PRE-7: are not pulled any more on nodes whose pods have been updated meanwhile', () => {
    const [job] = jobs({});
    if (!job) throw new Error('no job');
    const nodes = ['node-a', 'node-b'].map((name) => nodeImage(name));
    const meant = (revision: string) =>
      meantNodes(job, {
        nodeImages: nodes,
        byName: (name) => nodes.find(({ metadata }) => metadata.name === name),
        pods: () => [pod('web-a', { node: 'node-a' }), pod('web-b', { node: 'node-b', revision })],
      }).map(({ metadata }) => metadata.name);
    expect(meant(oldName)).toEqual(['node-a', 'node-b']);
    expect(meant(newName)).toEqual(['node-a']);
    expect(meant(shortHash(newName))).toEqual(['node-a']);
  });

  it('PRE-8: follow the fields of v1beta1; annotations of v1alpha1 mean nothing there', () => {
    const annotations = { 'apps.kruise.io/image-predownload-parallelism': '7' };
    expect(jobs({ set: cloneSet({}, { metadata: { annotations } }) })).toMatchObject([{ spec: { parallelism: 1 } }]);
  });

  it('PRE-10: hold no pod back', () => {
    expect(plan({ permit: {} }).disruption).toMatchObject([{ kind: 'updatePod' }]);
  });
});

describe('a roll-out that waits for its images', () => {
  const threeNodes = ['a', 'b', 'c'].map((node, index) => pod(`web-o${index}`, { node: `node-${node}` }));

  /** A CloneSet of three pods on three nodes, whose new images must be on this share of them. */
  function waiting(
    share: string,
    more: { readonly change?: SpecChange; readonly rollOut?: RollOutOrders } = {},
  ): CloneSet {
    const annotations = { [windlassAnnotation.prefetch]: share };
    const { change, ...orders } = more;
    const status = { currentRevision: oldName, ...orders };
    return cloneSet({ replicas: 3, ...change }, { status, metadata: { annotations } });
  }

  function imagesOn(nodes: Readonly<Record<string, 'Succeeded' | 'Failed' | 'open'>>): ReadonlyMap<string, NodeImage> {
    return new Map(
      Object.entries(nodes).map(([node, phase]) => {
        const statuses: readonly ImageTagStatus[] = phase === 'open' ? [] : [endedTag('1.1', phase)];
        return [node, nodeImage(node, { nginx: [tagOf('1.1')] }, { nginx: statuses })];
      }),
    );
  }

  const none = imagesOn({ 'node-a': 'open', 'node-b': 'open', 'node-c': 'open' });
  const two = imagesOn({ 'node-a': 'Succeeded', 'node-b': 'open', 'node-c': 'Succeeded' });
  const given = (
    share: string,
    nodeImages: ReadonlyMap<string, NodeImage | undefined>,
    facts: WorldFacts = {},
  ): WorldFacts => ({
    set: waiting(share),
    pods: threeNodes,
    permit: {},
    ...facts,
    more: { nodeImages, ...facts.more },
  });

  it('disturbs no pod before they are on the chosen share of nodes, and names those that lack them', () => {
    const held = plan(given('80%', two));
    expect(held.disruption).toEqual([]);
    expect(held.standing).toMatchObject({ kind: 'waiting', wait: { reason: 'ImageNotReady' } });
    expect(held.status?.waitingFor).toMatchObject({
      reason: 'ImageNotReady',
      blockedBy: ['node/node-b'],
      blockedCount: 1,
      unblock: expect.stringContaining('new images are on 2 of 3 nodes, and are needed on 3'),
    });
    for (const share of ['60%', '2', '0', '0%']) {
      expect(plan(given(share, two)).disruption).toMatchObject([{ kind: 'updatePod' }]);
    }
    expect(plan(given('7', two)).disruption).toEqual([]);
  });

  it('says so without a permit, too, but a pause and a spent budget come first', () => {
    const { permit: _, ...unpermitted } = given('1', none);
    expect(plan(unpermitted).status?.waitingFor?.reason).toBe('ImageNotReady');
    const paused = plan(given('1', none, { more: heldByOperator }));
    expect(paused.status?.waitingFor?.reason).toBe('PausedByOperator');
    const updating = pod('web-o1', { node: 'node-b', ready: false, revision: newName });
    expect(plan(given('1', none, { pods: [updating, ...threeNodes.slice(1)] })).status?.waitingFor?.reason).toBe(
      'BudgetSpent',
    );
  });

  it('pulls whatever the size of the set, and whoever is ready', () => {
    const strategy = { inPlaceUpdateStrategy: { imagePreDownloadMinUpdatedReadyPods: 1 }, maxUnavailable: '100%' };
    const set = waiting('1', { change: { rollingUpdate: strategy } });
    expect(jobs(given('1', none, { set }))).toHaveLength(1);
    expect(wanted(given('1', none))).toMatchObject([{ kind: 'preDownload', marks: created }]);
  });

  it('makes a job again that went before its time, and says on which nodes it failed', () => {
    const revisions = [oldRevision, marked(newRevisionOfSet, created.metadata.labels)];
    expect(wanted(given('1', none, { revisions }))).toEqual([
      { kind: 'preDownload', revision: expect.anything(), jobs: [expect.anything()] },
    ]);
    const pullJobs = [known(`${newName}-main`)];
    expect(wanted(given('1', none, { revisions, more: { pullJobs } }))).toEqual([]);
    const failed = imagesOn({ 'node-a': 'Failed', 'node-b': 'open', 'node-c': 'open' });
    const { waitingFor } = plan(given('1', failed)).status ?? {};
    expect(waitingFor?.unblock).toContain('could not be pulled on node-a');
  });

  it('has waited for good once the revision is marked, and waits anew when the revision comes back', () => {
    const [step] = wanted(
      given('60%', two, { revisions: [oldRevision, marked(newRevisionOfSet, created.metadata.labels)] }),
    );
    const annotations = { [windlassAnnotation.prefetched]: '2' };
    expect(step).toMatchObject({ kind: 'patchRevision', patch: { metadata: { annotations } } });
    const { metadata } = marked(newRevisionOfSet, created.metadata.labels);
    const open = {
      ...newRevisionOfSet,
      metadata: { ...metadata, annotations: { ...metadata.annotations, ...annotations } },
    };
    expect(plan(given('3', none, { revisions: [oldRevision, open] })).disruption).toHaveLength(1);
    expect(wanted(given('3', none, { revisions: [oldRevision, open] }))).toEqual([]);
    const back = { ...open, revision: 4 };
    expect(plan(given('3', none, { revisions: [oldRevision, back] })).disruption).toEqual([]);
  });

  it('P-7: finishes the update of a pod that is out of service for it', () => {
    const conditions = [
      { type: 'InPlaceUpdateReady', status: 'False', reason: 'StartInPlaceUpdate', lastTransitionTime: earlier },
      { type: 'KruisePodReady', status: 'True', lastTransitionTime: now },
      { type: 'Ready', status: 'False', lastTransitionTime: now },
    ];
    const drained = pod('web-o0', { node: 'node-a', ready: false, conditions });
    const { upkeep, disruption } = plan(given('1', none, { pods: [drained, ...threeNodes.slice(1)] }));
    expect(disruption).toEqual([]);
    expect(upkeep).toContainEqual(
      expect.objectContaining({ kind: 'updatePod', pod: expect.objectContaining({ name: 'web-o0' }) }),
    );
  });

  it('waits for a node that cannot be asked yet, and makes an ended job anew when it can', () => {
    const young = new Map<string, NodeImage | undefined>([
      ...imagesOn({ 'node-a': 'Succeeded' }),
      ['node-b', undefined],
    ]);
    const revisions = [oldRevision, marked(newRevisionOfSet, created.metadata.labels)];
    const job = known(`${newName}-main`);
    const ended = { ...job, status: { completionTime: now } } as ImagePullJob;
    const unasked = given('100%', young, { revisions, more: { pullJobs: [ended] } });
    expect(plan(unasked).status?.waitingFor?.blockedBy).toEqual(['node/node-b']);
    expect(wanted(unasked)).toEqual([]);
    const partly = new Map([...young, ['node-b', nodeImage('node-b')] as const]);
    const asked = (pullJobs: readonly ImagePullJob[]) => given('100%', partly, { revisions, more: { pullJobs } });
    expect(wanted(asked([ended]))).toMatchObject([{ kind: 'deletePullJob', job: { name: job.metadata.name } }]);
    expect(wanted(asked([job]))).toEqual([]);
    expect(wanted(asked([{ ...ended, ...known(`${newName}-main`, true) }]))).toEqual([]);
    expect(wanted(asked([]))).toMatchObject([{ kind: 'preDownload' }]);
  });

  it('lets a pod go on that has been held for its update', () => {
    const lifecycle = { inPlaceUpdate: { finalizersHandler: ['example.com/drain'] } };
    const set = waiting('1', { change: { lifecycle } });
    const [first, ...others] = threeNodes;
    if (!first) throw new Error('no pod');
    const held = pod('web-o0', { node: 'node-a', state: 'PreparingUpdate' });
    const steps = plan(given('1', none, { set, pods: [held, ...others] })).upkeep;
    expect(steps).toContainEqual(expect.objectContaining({ kind: 'updatePod' }));
  });

  it('does not wait for nodes on which nobody pulls, for pods that are left out, or for more than there is', () => {
    const partly = imagesOn({ 'node-a': 'Succeeded', 'node-b': 'open' });
    expect(plan(given('100%', partly)).status?.waitingFor?.blockedBy).toEqual(['node/node-b']);
    const rollOut = { version: 1, revision: newName, skip: ['web-o1'] };
    expect(plan(given('100%', partly, { set: waiting('100%', { rollOut }) })).disruption).toHaveLength(1);
    expect(plan(given('100%', new Map())).disruption).toHaveLength(1);
  });

  it('does not wait where pods are made anew, where nothing is pulled ahead, or on the way back', () => {
    const recreate = waiting('1', { change: { rollingUpdate: { podUpdatePolicy: 'ReCreate' } } });
    expect(plan(given('1', none, { set: recreate })).disruption).toMatchObject([{ kind: 'recreatePod' }]);
    expect(plan(given('1', none, { gates: [] })).disruption).toHaveLength(1);
    const by = { by: 'ann', at: now };
    const rollOut = { version: 1, revision: newName, undo: { ...by, to: oldName } };
    const updated = threeNodes.map(({ metadata, spec }) =>
      pod(metadata.name, { node: spec.nodeName ?? '', revision: newName }),
    );
    const undo = given('1', none, { set: waiting('1', { rollOut }), pods: updated });
    expect(plan({ ...undo, permit: permitForAll(oldName) }).disruption).toHaveLength(1);
  });
});
