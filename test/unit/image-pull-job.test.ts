import { describe, expect, it } from '@jest/globals';
import type { JsonObject } from '../../api/base/json.ts';
import { familiarImage, referenceOf } from '../../api/core/familiar-image.ts';
import { causeOf, messageOf } from '../../api/core/field-error.ts';
import type { Node } from '../../api/core/node.ts';
import type { Pod } from '../../api/core/pod.ts';
import { type EngineTrouble, engineNoWorkers, engineSilent, engineStuck } from '../../api/engine/engine-trouble.ts';
import { defaultListPullJob, defaultPullJob } from '../../api/image-pull-job/defaults.ts';
import { pullJobCondition } from '../../api/image-pull-job/texts.ts';
import {
  type ImagePullJob,
  type ImagePullJobSpec,
  parallelismOf,
  pullSecretFinalizer,
} from '../../api/image-pull-job/types.ts';
import {
  tooLargeForNodes,
  validateListPullJob,
  validatePullJob,
  validatePullJobUpdate,
} from '../../api/image-pull-job/validate.ts';
import { findTag, type NodeImage } from '../../api/node-image/types.ts';
import {
  jobStatus,
  meantNodes,
  nodesToRetry,
  nodesToTell,
  nodesWithoutNodeImage,
  retryTold,
  standings,
} from '../../plan/images/image-pull-job.ts';
import { pruned, takesWish, withoutWish, withRetry, withWish } from '../../plan/images/node-image.ts';
import { trimPod } from '../../watcher/trim.ts';
import { aPod } from '../support/objects/pod.ts';
import { bornAt, bornMs, endedTag, nodeImage, pullJob, tagOf } from '../support/pull-objects.ts';

const nginx = { name: 'nginx', tag: '1.27' };

describe('the name of an image', () => {
  const cases: readonly (readonly [string, string, string])[] = [
    ['nginx:1.9.1', 'nginx', '1.9.1'],
    ['docker.io/library/nginx', 'nginx', 'latest'],
    ['docker.io/foo/bar', 'foo/bar', 'latest'],
    ['foo/bar:2', 'foo/bar', '2'],
    ['registry.example.com:5000/team/app:3', 'registry.example.com:5000/team/app', '3'],
    [`nginx@sha256:${'a'.repeat(64)}`, 'nginx', `sha256:${'a'.repeat(64)}`],
    [`nginx:1.9@sha256:${'a'.repeat(64)}`, 'nginx', `sha256:${'a'.repeat(64)}`],
  ];
  it.each(cases)('IPJ-11: %s is filed as %s, %s', (text, name, tag) => {
    expect(familiarImage(text)).toEqual({ name, tag });
  });

  it('NP-15: a digest is asked for by @, a tag by a colon', () => {
    expect(referenceOf({ name: 'nginx', tag: '1' })).toBe('nginx:1');
    expect(referenceOf({ name: 'nginx', tag: 'sha256:ab' })).toBe('nginx@sha256:ab');
  });
});

describe('admission of a job', () => {
  const apply = (spec: object): JsonObject => ({
    apiVersion: 'apps.kruise.io/v1beta1',
    spec: { image: 'nginx', ...spec },
  });
  const problems = (spec: object) => validatePullJob(defaultPullJob(apply(spec), true));

  it('fills what users leave out', () => {
    expect(defaultPullJob(apply({}), true).spec).toEqual({
      image: 'nginx',
      imagePullPolicy: 'IfNotPresent',
      pullPolicy: { timeoutSeconds: 600, backoffLimit: 3 },
      completionPolicy: { type: 'Always' },
    });
    expect(defaultListPullJob({ spec: { images: ['a'] } }).spec).not.toHaveProperty('imagePullPolicy');
  });

  it('IPJ-23: gives a finalizer to a new job that names Secrets, and to no other', () => {
    const named = defaultPullJob(apply({ pullSecrets: ['a'] }), true);
    expect(named.metadata).toEqual({ finalizers: [pullSecretFinalizer] });
    expect(defaultPullJob(named, true)).toEqual(named);
    expect(defaultPullJob(apply({}), true)).not.toHaveProperty('metadata');
    expect(defaultPullJob(apply({ pullSecrets: ['a'] }), false)).not.toHaveProperty('metadata');
  });

  const bad: readonly (readonly [object, string, RegExp])[] = [
    [{ image: '' }, 'spec.image', /image can not be empty/],
    [{ image: 'not an image' }, 'spec.image', /invalid image not an image/],
    [
      { selector: { names: ['a'], matchLabels: { b: 'c' } } },
      'spec.selector',
      /can not set both names and labelSelector/,
    ],
    [{ selector: { names: ['a', 'a'] } }, 'spec.selector', /duplicated name in selector names/],
    [{ selector: { matchExpressions: [{ key: 'a', operator: 'In' }] } }, 'spec.selector', /invalid selector/],
    [{ selector: {}, podSelector: {} }, 'spec', /can not set both selector and podSelector/],
    [{ podSelector: { matchExpressions: [{ key: 'a', operator: 'x' }] } }, 'spec.podSelector', /invalid podSelector/],
    [{ parallelism: '10%' }, 'spec.parallelism', /does not support percentage/],
    [{ parallelism: 'many' }, 'spec.parallelism', /must be a valid integer/],
    [{ parallelism: -1 }, 'spec.parallelism', /must be non-negative/],
    [{ completionPolicy: { type: 'Sometimes' } }, 'spec.completionPolicy.type', /unknown type of completionPolicy/],
    [
      { completionPolicy: { type: 'Never', ttlSecondsAfterFinished: 1 } },
      'spec.completionPolicy',
      /can only work with Always/,
    ],
    [
      { completionPolicy: { activeDeadlineSeconds: 599 } },
      'spec.completionPolicy.activeDeadlineSeconds',
      /must be greater than pullPolicy.timeoutSeconds/,
    ],
  ];
  it.each(bad)('refuses %j at %s', (spec, field, message) => {
    expect(problems(spec).map(causeOf)).toEqual([
      expect.objectContaining({ field, message: expect.stringMatching(message) }),
    ]);
  });

  it('lets pass what OpenKruise lets pass', () => {
    const fine = [
      { parallelism: '3', selector: { names: ['nobody'] } },
      { imagePullPolicy: 'Sometimes', pullPolicy: { backoffLimit: -2 } },
      { completionPolicy: { activeDeadlineSeconds: 600, ttlSecondsAfterFinished: -5 } },
    ];
    for (const spec of fine) expect(problems(spec)).toEqual([]);
  });

  it('keeps pullSecrets as they are', () => {
    const [before, after] = [apply({ pullSecrets: ['a'] }), apply({ pullSecrets: ['b'] })];
    expect(validatePullJobUpdate(before, before)).toEqual([]);
    expect(validatePullJobUpdate(before, after).map(causeOf)).toMatchObject([
      { field: 'spec.pullSecrets', message: expect.stringContaining('spec.pullSecrets is immutable') },
    ]);
  });

  it('bounds a list, and refuses what it names twice', () => {
    const check = (images: readonly string[]) =>
      validateListPullJob(defaultListPullJob({ spec: { images } })).map(messageOf);
    expect(check([])).toEqual([expect.stringContaining('image can not be empty')]);
    expect(check(['a', 'a'])).toEqual([expect.stringContaining('duplicate')]);
    expect(check(Array.from({ length: 256 }, (_, index) => `a:${index}`))).toEqual([expect.stringContaining('> 255')]);
    expect(check(['a', 'b:2'])).toEqual([]);
  });

  const longest = `r.example.com/${'a'.repeat(255 - 14)}`;
  const tooLong: readonly (readonly [string, RegExp])[] = [
    [`${longest}a:1`, /its repository has 256 characters, at most 255 are possible$/],
    ['a'.repeat(3_600), /the image reference is too long: it has 3600 characters, at most 400 are possible$/],
    ['a'.repeat(1_000_000), /it has 1000000 characters/],
  ];
  it.each(tooLong)('C1: refuses a reference that no runtime takes (%#)', (image, message) => {
    const expected = { message: expect.stringMatching(message) };
    expect(problems({ image }).map(causeOf)).toEqual([expect.objectContaining({ field: 'spec.image', ...expected })]);
    const list = validateListPullJob(defaultListPullJob({ spec: { images: ['nginx', image] } }));
    expect(list.map(causeOf)).toEqual([expect.objectContaining({ field: 'spec.images[1]', ...expected })]);
  });

  it('C1: lets pass the longest reference that there is', () => {
    expect(problems({ image: `${longest}:${'t'.repeat(128)}` })).toEqual([]);
    expect(problems({ image: `${longest}@sha256:${'a'.repeat(64)}` })).toEqual([]);
  });

  it('H4: refuses more than 64 Secrets, each of which would be copied and told to each node', () => {
    const pullSecrets = Array.from({ length: 65 }, (_, index) => `s${index}`);
    const tooMany = [
      { field: 'spec.pullSecrets', message: expect.stringContaining('must not have more than 64 items') },
    ];
    expect(problems({ pullSecrets }).map(causeOf)).toMatchObject(tooMany);
    expect(problems({ pullSecrets: pullSecrets.slice(1) })).toEqual([]);
    const list = defaultListPullJob({ spec: { images: ['nginx'], pullSecrets } });
    expect(validateListPullJob(list).map(causeOf)).toMatchObject(tooMany);
    expect(validateListPullJob(list, list)).toEqual([]); // it was stored so
  });

  it('H4: refuses a sandboxConfig of more than 4 KiB, which each node would get', () => {
    const sandboxConfig = { annotations: { a: 'é'.repeat(2_100) } };
    expect(problems({ sandboxConfig }).map(causeOf)).toEqual([
      expect.objectContaining({
        field: 'spec.sandboxConfig',
        message: expect.stringContaining('must not have more than 4096 bytes together, and have 4224'),
      }),
    ]);
    expect(problems({ sandboxConfig: { annotations: { a: 'é'.repeat(2_000) } } })).toEqual([]);
  });

  it('C1, H4: a job or list that was stored above a limit can still be changed, as long as that stays as it is', () => {
    const sandboxConfig = { annotations: { a: 'x'.repeat(5_000) } };
    const image = 'a'.repeat(3_600);
    const stored = defaultPullJob(apply({ image, sandboxConfig }), false);
    expect(validatePullJob(defaultPullJob(apply({ image, sandboxConfig, parallelism: 7 }), false), stored)).toEqual([]);
    const worse = apply({ image: `${image}a`, sandboxConfig: { annotations: { a: 'x'.repeat(5_001) } } });
    expect(validatePullJob(defaultPullJob(worse, false), stored).map(({ field }) => field)).toEqual([
      'spec.image',
      'spec.sandboxConfig',
    ]);
    const list = (images: readonly string[]) => defaultListPullJob({ spec: { images, sandboxConfig } });
    expect(validateListPullJob(list([image, 'nginx']), list([image]))).toEqual([]);
    expect(validateListPullJob(list([image, `${image}b`]), list([image])).map(({ field }) => field)).toEqual([
      'spec.images[1]',
    ]);
  });

  it('reads parallelism as a number, and as 1 where there is none', () => {
    expect(
      [undefined, 0, 7, '12'].map((parallelism) =>
        parallelismOf({ spec: { ...(parallelism !== undefined && { parallelism }) } }),
      ),
    ).toEqual([1, 0, 7, 12]);
  });
});

describe('the nodes that are meant', () => {
  const nodes = [
    nodeImage('b', {}, {}, { zone: 'two' }),
    nodeImage('a', {}, {}, { zone: 'one' }),
    nodeImage('c', {}, {}, { zone: 'one' }),
  ];
  const pod = (name: string, nodeName: string | undefined, more: Partial<Pod> = {}): Pod => ({
    ...aPod({ metadata: { name, uid: name, labels: { app: 'web' } }, spec: { ...(nodeName && { nodeName }) } }),
    ...more,
  });
  const named = (spec: Partial<ImagePullJobSpec>, pods: readonly Pod[] = []) =>
    meantNodes(pullJob(spec), {
      nodeImages: nodes,
      byName: (name) => nodes.find(({ metadata }) => metadata.name === name),
      pods: () => pods,
    }).map(({ metadata }) => metadata.name);

  it('IPJ-1: are those of matching, active pods of the namespace, each once', () => {
    const other = pod('x', 'c');
    const pods = [
      pod('1', 'a'),
      pod('2', 'a'),
      pod('3', undefined),
      pod('4', 'unknown'),
      pod('5', 'b', { status: { phase: 'Succeeded' } }),
      { ...other, metadata: { ...other.metadata, namespace: 'else' } },
    ];
    expect(named({ podSelector: { matchLabels: { app: 'web' } } }, pods)).toEqual(['a']);
    expect(named({ podSelector: {} }, pods)).toEqual(['a']);
  });
  it('IPJ-1: are not those of pods that have ended, of which the caches keep no labels', () => {
    const kept = (['Running', 'Failed', 'Succeeded'] as const).map((phase, index) =>
      trimPod(pod(`${index}`, ['a', 'b', 'c'][index], { status: { phase } })),
    );
    const isNot = { matchExpressions: [{ key: 'batch', operator: 'DoesNotExist' }] } as const;
    expect(named({ podSelector: {} }, kept)).toEqual(['a']);
    expect(named({ podSelector: isNot }, kept)).toEqual(['a']);
  });

  it('M12: are no nodes that say of themselves that they do not run Linux', () => {
    const windows = nodeImage('w', {}, {}, { 'kubernetes.io/os': 'windows' });
    const linux = nodeImage('x', {}, {}, { 'kubernetes.io/os': 'linux' });
    const world = { nodeImages: [...nodes, windows, linux], byName: () => windows, pods: () => [] };
    const names = (spec: Partial<ImagePullJobSpec>) =>
      meantNodes(pullJob(spec), world).map(({ metadata }) => metadata.name);
    expect(names({})).toEqual(['a', 'b', 'c', 'x']);
    expect(names({ selector: { names: ['w'] } })).toEqual([]);
  });
  it('NI-1, IPJ-20: include ready nodes whose NodeImage is still to come, for which a job is not complete', () => {
    const nodeOf = (name: string, status: string, labels = {}): Node => ({
      ...{ apiVersion: 'v1', kind: 'Node', metadata: { ...pullJob({}).metadata, name, uid: name, labels } },
      status: { conditions: [{ type: 'Ready', status, lastTransitionTime: bornAt }] },
    });
    const all = [
      ...[nodeOf('a', 'True', { zone: 'one' }), nodeOf('z', 'True', { zone: 'two' }), nodeOf('y', 'True')],
      ...[nodeOf('down', 'False'), nodeOf('w', 'True', { 'kubernetes.io/os': 'windows' })],
    ];
    const coming = (spec: Partial<ImagePullJobSpec>, pods: readonly Pod[] = []) =>
      nodesWithoutNodeImage(pullJob(spec), { nodes: all, hasNodeImage: (name) => name === 'a', pods: () => pods });
    expect(coming({})).toEqual(['y', 'z']);
    expect(coming({ selector: { matchLabels: { zone: 'two' } } })).toEqual(['z']);
    expect(coming({ selector: { names: ['a', 'y', 'down'] } })).toEqual(['y']);
    expect(coming({ podSelector: {} }, [pod('1', 'z')])).toEqual(['z']);
    expect(coming({ podSelector: {} }, [trimPod(pod('1', 'z', { status: { phase: 'Failed' } }))])).toEqual([]);

    const standing = { node: 'y', state: 'unasked', lacksSecret: false, held: 'noNodeImage' } as const;
    const { status, againInMs } = jobStatus(pullJob({}), [standing], { nowMs: bornMs });
    expect(status).toMatchObject({
      ...{ desired: 1, succeeded: 0 },
      waitingFor: { reason: 'NoNodeImages', blockedBy: ['node/y'] },
    });
    expect(status.completionTime).toBeUndefined();
    expect(againInMs).toBe(15_000);
    expect(nodesToTell(pullJob({}), [standing])).toEqual([]);
  });
  it('IPJ-2: are all without a selector', () => expect(named({})).toEqual(['a', 'b', 'c']));
  it('IPJ-3: are the named ones that exist', () =>
    expect(named({ selector: { names: ['c', 'x', 'a'] } })).toEqual(['a', 'c']));
  it('IPJ-4: are those with the labels, and all for an empty selector', () => {
    expect(named({ selector: { matchLabels: { zone: 'one' } } })).toEqual(['a', 'c']);
    expect(named({ selector: {} })).toEqual(['a', 'b', 'c']);
  });
});

/** Nodes a, b, c … with these states for the job. */
function nodesAs(...states: readonly ('unasked' | 'active' | 'succeeded' | 'failed')[]): readonly NodeImage[] {
  return states.map((state, index) => {
    const name = String.fromCharCode(97 + index);
    if (state === 'unasked') return nodeImage(name);
    if (state === 'active') return nodeImage(name, { nginx: [tagOf('1.27')] });
    const phase = state === 'failed' ? 'Failed' : 'Succeeded';
    return nodeImage(name, { nginx: [tagOf('1.27')] }, { nginx: [endedTag('1.27', phase)] });
  });
}

function stand(job: ImagePullJob, nodes: readonly NodeImage[]) {
  return standings(job, nginx, nodes, []);
}

describe('the nodes that are told next', () => {
  const told = (spec: Partial<ImagePullJobSpec>, nodes: readonly NodeImage[], more: Partial<ImagePullJob> = {}) => {
    const job = pullJob(spec, more);
    return nodesToTell(job, stand(job, nodes));
  };

  it('IPJ-10: come in order of their names, never more at once than parallelism says', () => {
    const nodes = nodesAs('unasked', 'active', 'succeeded', 'unasked', 'unasked');
    expect(told({ parallelism: 3 }, nodes)).toEqual(['a', 'd']);
    expect(told({ parallelism: 1 }, nodes)).toEqual([]);
    expect(told({ parallelism: 0 }, nodes)).toEqual([]);
    expect(told({}, nodesAs('failed', 'unasked', 'unasked'))).toEqual(['b']);
  });

  it('IPJ-10: a node counts until the status speaks of the present version of the tag', () => {
    const again = nodeImage(
      'a',
      { nginx: [tagOf('1.27', { version: 4 })] },
      { nginx: [endedTag('1.27', 'Failed', 3)] },
    );
    expect(told({ parallelism: 1 }, [again, ...nodesAs('unasked')])).toEqual([]);
  });

  it('SEC-4: a node that lacks a Secret which came late is told of it, whatever parallelism says', () => {
    const job = pullJob({ parallelism: 1, pullSecrets: ['a'] });
    const refs = [{ namespace: 'kruise-daemon-config', name: 'a-1', mode: 'batch' }];
    expect(nodesToTell(job, standings(job, nginx, nodesAs('active', 'unasked'), refs))).toEqual(['a']);
  });

  it('are none while the job is paused, and none any more when it is aborted', () => {
    const status = (type: string) => ({
      desired: 0,
      active: 0,
      succeeded: 0,
      failed: 0,
      conditions: [
        { type, status: 'True' as const, reason: 'X', message: 'Paused by ann', lastTransitionTime: bornAt },
      ],
    });
    expect(told({}, nodesAs('unasked'), { status: status(pullJobCondition.paused) })).toEqual([]);
    expect(told({}, nodesAs('unasked'), { status: status(pullJobCondition.aborted) })).toEqual([]);
    const retrying = pullJob({}, { status: status(pullJobCondition.retrying) });
    expect(nodesToRetry(retrying, stand(retrying, nodesAs('failed', 'active', 'succeeded')))).toEqual(['a']);
    expect(nodesToRetry(pullJob(), stand(pullJob(), nodesAs('failed')))).toEqual([]);
  });
});

describe('what a job writes for a node', () => {
  const wish = (job: ImagePullJob = pullJob(), spread = 0) => ({
    job,
    image: nginx,
    secrets: [],
    nowMs: bornMs,
    tagTtlSeconds: 300,
    spread,
  });
  const wished = (live: NodeImage, job?: ImagePullJob, spread?: number) => ({
    ...live,
    spec: withWish(live, wish(job, spread)),
  });

  it('IPJ-12, IPJ-16: a new tag one version above the status, owned by the job', () => {
    const before = nodeImage('a', {}, { nginx: [endedTag('1.27', 'Succeeded', 6)] });
    expect(findTag(wished(before), 'nginx', '1.27')).toEqual({
      tag: '1.27',
      version: 7,
      createdAt: bornAt,
      imagePullPolicy: 'IfNotPresent',
      pullPolicy: { timeoutSeconds: 600, backoffLimit: 3, ttlSecondsAfterFinished: 2100 },
      ownerReferences: [
        { apiVersion: 'apps.kruise.io/v1beta1', kind: 'ImagePullJob', namespace: 'shop', name: 'warm', uid: 'job-1' },
      ],
    });
    expect(findTag(wished(nodeImage('a')), 'nginx', '1.27')?.version).toBe(0);
  });

  it("IPJ-13: somebody else's tag gets a new version and one more owner, and keeps its policy", () => {
    const other = tagOf('1.27', { ownerReferences: [{ kind: 'ImagePullJob', uid: 'other' }], createdAt: 'before' });
    const after = findTag(
      wished(nodeImage('a', { nginx: [other] }), pullJob({ imagePullPolicy: 'Always' })),
      'nginx',
      '1.27',
    );
    expect(after).toMatchObject({
      version: 1,
      createdAt: bornAt,
      imagePullPolicy: 'Always',
      pullPolicy: other.pullPolicy,
    });
    expect(after?.ownerReferences?.map(({ uid }) => uid)).toEqual(['other', 'job-1']);
  });

  describe('H4: beside those of others', () => {
    const owner = (namespace: string, uid: string) => ({ kind: 'ImagePullJob', namespace, name: uid, uid });
    const jobOf = (namespace: string, index: number) => {
      const job = pullJob({ image: `app-${index}:1` });
      return { ...job, metadata: { ...job.metadata, namespace, uid: `${namespace}-${index}` } };
    };
    const ask = (live: NodeImage, namespace: string, index: number, isEnded?: (owner: { uid?: string }) => boolean) => {
      const job = jobOf(namespace, index);
      const image = { name: `${namespace}/app-${index}`, tag: '1' };
      return { ...live, spec: withWish(live, { ...wish(job), image, ...(isEnded && { isEnded }) }) };
    };
    /** A NodeImage filled with requests of this namespace. */
    const filledBy = (live: NodeImage, namespace: string, most = 1_000) => {
      let now = live;
      let count = 0;
      while (count < most) {
        const next = ask(now, namespace, count);
        if (next.spec === now.spec) break;
        now = next;
        count += 1;
      }
      return { live: now, count };
    };

    it('a node takes at most 256 wishes, and no namespace all of them', () => {
      let live = nodeImage('a');
      const counts = ['first', 'second', 'third', 'fourth', 'fifth', 'sixth'].map((namespace) => {
        const filled = filledBy(live, namespace);
        live = filled.live;
        return filled.count;
      });
      expect(counts).toEqual([192, 48, 12, 3, 1, 0]);
    });

    it('what goes makes room for who has less, before who has much', () => {
      let live = nodeImage('a');
      for (const namespace of ['first', 'second', 'third', 'fourth', 'fifth']) live = filledBy(live, namespace).live;
      live = { ...live, spec: withoutWish(live, { name: 'first/app-0', tag: '1' }, 'first-0') };
      expect(ask(live, 'first', 0).spec).toBe(live.spec);
      expect(ask(live, 'sixth', 0).spec).not.toBe(live.spec);
    });

    it('counts jobs that want the same tag one by one, as each is written there', () => {
      const owners = Array.from({ length: 256 }, (_, index) => owner('first', `job-${index}`));
      const full = nodeImage('a', { nginx: [tagOf('1', { ownerReferences: owners })] });
      expect(ask(full, 'second', 1).spec).toBe(full.spec);
      expect(takesWish(full, 'second')).toBe(false);
    });

    it('makes room of the records of jobs that have ended, and of nothing else', () => {
      const { live } = filledBy(nodeImage('a'), 'first');
      const imageStatuses = { 'first/app-0': { tags: [endedTag('1', 'Succeeded')] } };
      const ended = { ...live, status: { desired: 0, succeeded: 0, failed: 0, pulling: 0, imageStatuses } };
      const isEnded = ({ uid }: { readonly uid?: string }) => uid === 'first-0' || uid === 'first-1';
      expect(ask(ended, 'first', 500).spec).toBe(ended.spec);
      const after = ask(ended, 'first', 500, isEnded);
      expect(findTag(after, 'first/app-500', '1')).toBeDefined();
      expect(findTag(after, 'first/app-0', '1')).toBeUndefined();
      // it has not been pulled yet
      expect(findTag(after, 'first/app-1', '1')).toBeDefined();
      // with enough room every tag is kept for its full time
      const few = nodeImage(
        'b',
        { 'first/app-0': [tagOf('1', { ownerReferences: [owner('first', 'first-0')] })] },
        imageStatusOf(ended),
      );
      expect(findTag(ask(few, 'first', 500, isEnded), 'first/app-0', '1')).toBeDefined();
    });

    function imageStatusOf({ status }: NodeImage) {
      return Object.fromEntries(
        Object.entries(status?.imageStatuses ?? {}).map(([name, { tags = [] }]) => [name, tags]),
      );
    }

    it('a job passes over a full node, and says so when only full nodes are left', () => {
      const { live: full } = filledBy(nodeImage('a'), 'shop');
      const job = pullJob({ parallelism: 1 });
      const [free] = nodesAs('unasked').map((live) => ({ ...live, metadata: { ...live.metadata, name: 'b' } }));
      if (!free) throw new Error('no node');
      expect(nodesToTell(job, stand(job, [full, free]))).toEqual(['b']);
      const [done] = nodesAs('succeeded');
      if (!done) throw new Error('no node');
      const { status, againInMs } = jobStatus(job, stand(job, [full, done]), { nowMs: bornMs });
      expect(status).toMatchObject({
        desired: 2,
        succeeded: 1,
        waitingFor: { reason: 'NodesFull', blockedBy: ['nodeimage/a'] },
      });
      expect(status.completionTime).toBeUndefined();
      expect(againInMs).toBe(15_000);
    });
  });

  it('IPJ-14: its own tag stays as it is, and gets a Secret that it lacks', () => {
    const own = nodeImage('a', { nginx: [tagOf('1.27')] });
    expect(withWish(own, wish())).toBe(own.spec);
    const secret = { namespace: 'n', name: 's', mode: 'batch' };
    const after = withWish(own, { ...wish(), secrets: [secret] });
    expect(after.images?.nginx).toEqual({ tags: own.spec.images?.nginx?.tags, pullSecrets: [secret] });
    // but not one for which there is no room
    const many = Array.from({ length: 256 }, (_, index) => ({ ...secret, name: `s${index}` }));
    const full = { ...own, spec: { images: { nginx: { ...own.spec.images?.nginx, pullSecrets: many } } } };
    expect(withWish(full, { ...wish(), secrets: [secret] })).toBe(full.spec);
  });

  it('IPJ-15: the sandbox of the image is that of the last job, also none', () => {
    const sandboxConfig = { labels: { a: 'b' } };
    const first = wished(nodeImage('a'), pullJob({ sandboxConfig }));
    expect(first.spec.images?.nginx?.sandboxConfig).toEqual(sandboxConfig);
    const second = pullJob({}, { metadata: { ...pullJob().metadata, uid: 'job-2' } });
    expect(wished(first, second).spec.images?.nginx).not.toHaveProperty('sandboxConfig');
  });

  it('IPJ-18: a changed policy of the job reaches nodes that are told later, not those told before', () => {
    const own = nodeImage('a', { nginx: [tagOf('1.27')] });
    expect(wished(own, pullJob({ imagePullPolicy: 'Always' })).spec).toBe(own.spec);
  });

  it('IPJ-30, IPJ-31: timeout and retries are those of the job, the record lasts a little longer than the job', () => {
    const ttlOf = (spec: Partial<ImagePullJobSpec>, spread = 0) =>
      findTag(wished(nodeImage('a'), pullJob(spec), spread), 'nginx', '1.27')?.pullPolicy;
    const policy = { timeoutSeconds: 60, backoffLimit: 2 };
    expect(ttlOf({ pullPolicy: policy })).toEqual({ ...policy, ttlSecondsAfterFinished: 420 });
    expect(ttlOf({ pullPolicy: policy }, 0.999)?.ttlSecondsAfterFinished).toBe(718);
    const deadline = { type: 'Always', activeDeadlineSeconds: 1000 };
    expect(ttlOf({ completionPolicy: deadline })).toMatchObject({
      ttlSecondsAfterFinished: 1300,
      activeDeadlineSeconds: 1000,
    });
    expect(ttlOf({ completionPolicy: { ...deadline, ttlSecondsAfterFinished: 5 } })?.ttlSecondsAfterFinished).toBe(305);
  });

  it('IPJ-32: type Never pulls again after a day, with a deadline that all attempts fit into', () => {
    const policyOf = (backoffLimit: number, spread: number) =>
      findTag(
        wished(
          nodeImage('a'),
          pullJob({ completionPolicy: { type: 'Never' }, pullPolicy: { timeoutSeconds: 900, backoffLimit } }),
          spread,
        ),
        'nginx',
        '1.27',
      )?.pullPolicy;
    expect(policyOf(0, 0.5)).toMatchObject({ ttlSecondsAfterFinished: 86_400, activeDeadlineSeconds: 1800 });
    expect(policyOf(3, 0)).toMatchObject({ ttlSecondsAfterFinished: 85_800, activeDeadlineSeconds: 3720 });
    expect(policyOf(3, 1)?.ttlSecondsAfterFinished).toBe(87_000);
  });
});

describe('what goes from a node', () => {
  const nobodyIsGone = { isGone: () => false, isMissing: () => false, nowMs: bornMs };
  const namesOf = (spec: NodeImage['spec']) => Object.keys(spec.images ?? {});

  it('NI-4, NI-7: a tag that says not since when, and an image without tags', () => {
    const { createdAt: _, ...timeless } = tagOf('1');
    const live = nodeImage('a', { nginx: [timeless], redis: [tagOf('7')], empty: [] });
    expect(namesOf(pruned(live, nobodyIsGone).spec)).toEqual(['redis']);
  });

  it('NI-5: a job that is gone, and with the last job the tag; never what people wrote by hand', () => {
    const both = tagOf('1', {
      ownerReferences: [
        { kind: 'ImagePullJob', uid: 'gone' },
        { kind: 'ImagePullJob', uid: 'here' },
      ],
    });
    const one = tagOf('2', { ownerReferences: [{ kind: 'ImagePullJob', uid: 'gone' }] });
    const foreign = tagOf('3', { ownerReferences: [{ kind: 'Else', uid: 'gone' }] });
    const { ownerReferences: _, ...byHand } = tagOf('4');
    const live = nodeImage('a', { nginx: [both, one, foreign, byHand] });
    const { spec } = pruned(live, { ...nobodyIsGone, isGone: ({ uid }) => uid === 'gone' });
    expect(spec.images?.nginx?.tags?.map(({ tag }) => tag)).toEqual(['1', '3', '4']);
    expect(spec.images?.nginx?.tags?.[0]?.ownerReferences).toEqual([{ kind: 'ImagePullJob', uid: 'here' }]);
    expect(pruned(live, nobodyIsGone).spec).toBe(live.spec);
  });

  it('NI-6: a tag whose record has lasted its time, and not before; one that is pulled again stays', () => {
    const live = nodeImage(
      'a',
      { nginx: [tagOf('1'), tagOf('2', { version: 1 })] },
      { nginx: [endedTag('1', 'Succeeded'), endedTag('2', 'Failed')] },
    );
    expect(pruned(live, { ...nobodyIsGone, nowMs: bornMs + 299_000 })).toEqual({ spec: live.spec, againInMs: 1000 });
    const { spec } = pruned(live, { ...nobodyIsGone, nowMs: bornMs + 300_000 });
    expect(spec.images?.nginx?.tags?.map(({ tag }) => tag)).toEqual(['2']);
  });

  it('an aborted job wants nothing any more of nodes that have not ended, and others still do', () => {
    const shared = tagOf('1.27', { ownerReferences: [{ uid: 'job-1' }, { uid: 'job-2' }] });
    expect(withoutWish(nodeImage('a', { nginx: [tagOf('1.27')] }), nginx, 'job-1').images).toEqual({});
    const left = withoutWish(nodeImage('a', { nginx: [shared] }), nginx, 'job-1');
    expect(left.images?.nginx?.tags?.[0]?.ownerReferences).toEqual([{ uid: 'job-2' }]);
    const [done] = nodesAs('succeeded');
    if (done) expect(withoutWish(done, nginx, 'job-1')).toEqual(done.spec);
  });

  it('a retry is a new version of the tag', () => {
    const [failed] = nodesAs('failed');
    if (!failed) throw new Error('no node');
    const after = { ...failed, spec: withRetry(failed, nginx, bornMs + 1000) };
    expect(findTag(after, 'nginx', '1.27')).toMatchObject({ version: 1, createdAt: '2026-11-21T10:00:01Z' });
    expect(stand(pullJob(), [after])).toMatchObject([{ state: 'active' }]);
  });
});

describe('the status of a job', () => {
  const report = (job: ImagePullJob, nodes: readonly NodeImage[], nowMs = bornMs, engine?: EngineTrouble) =>
    jobStatus(job, stand(job, nodes), { nowMs, ...(engine && { engine }) });

  it('counts nodes and says what it waits for', () => {
    const { status } = report(pullJob({ parallelism: 2 }), nodesAs('succeeded', 'failed', 'active', 'active'));
    expect(status).toMatchObject({
      desired: 4,
      active: 2,
      succeeded: 1,
      failed: 1,
      failedNodes: ['b'],
      startTime: bornAt,
      message: 'job is running, progress 50.0%',
      waitingFor: { reason: 'Pulling', blockedBy: ['nodeimage/c', 'nodeimage/d'], blockedCount: 2 },
    });
  });

  it('IPJ-20: is Completed when every node has ended, and with no node at all at once', () => {
    expect(report(pullJob(), nodesAs('succeeded', 'succeeded')).status).toMatchObject({
      completionTime: bornAt,
      message: 'job has completed',
      conditions: [{ type: 'Complete', reason: 'ImagePulled' }],
    });
    expect(report(pullJob(), []).status).toMatchObject({ desired: 0, completionTime: bornAt });
  });

  it('IPJ-22: nodes that failed stay so, and are named', () => {
    expect(report(pullJob(), nodesAs('failed', 'succeeded', 'failed')).status).toMatchObject({
      completionTime: bornAt,
      failed: 2,
      failedNodes: ['a', 'c'],
      conditions: [{ type: 'Failed', reason: 'NodesFailed', message: expect.stringContaining('a, c') }],
    });
  });

  it('IPJ-21: ends at its deadline, counts what has not succeeded as failed, and comes back for it in time', () => {
    const job = pullJob({ completionPolicy: { type: 'Always', activeDeadlineSeconds: 600 } });
    const begun = report(job, nodesAs('active', 'unasked', 'succeeded'), bornMs);
    expect(begun.againInMs).toBe(600_000);
    const late = report({ ...job, status: begun.status }, nodesAs('active', 'unasked', 'succeeded'), bornMs + 600_000);
    expect(late.status).toMatchObject({
      active: 0,
      failed: 2,
      succeeded: 1,
      failedNodes: ['a', 'b'],
      message: 'job exceeds activeDeadlineSeconds',
      conditions: [{ type: 'Failed', reason: 'DeadlineExceeded' }],
    });
    expect(late.status.completionTime).toBeDefined();
  });

  it('IPJ-24: type Never never ends', () => {
    const never = pullJob({ completionPolicy: { type: 'Never' } });
    const { status } = report(never, nodesAs('succeeded', 'failed'));
    expect(status.completionTime).toBeUndefined();
    expect(status.message).toBe('job is running, progress 100.0%');
    expect(report(never, []).status).toMatchObject({
      message: 'job is running, no progress',
      waitingFor: { reason: 'NoNodes' },
    });
  });

  it('C1, H4: says of a job that was stored above a limit which field is too large', () => {
    const tooLarge = tooLargeForNodes({ ...pullJob().spec, image: 'a'.repeat(500) });
    expect(tooLarge).toBe(
      'spec.image: the image reference is too long: its repository has 500 characters, at most 255 are possible',
    );
    const { status } = jobStatus(pullJob(), stand(pullJob(), nodesAs('unasked')), {
      nowMs: bornMs,
      ...(tooLarge !== undefined && { tooLarge }),
    });
    expect(status.waitingFor).toMatchObject({ reason: 'TooLarge', unblock: expect.stringContaining('spec.image: ') });
    const sandboxConfig = { labels: { a: 'x'.repeat(5_000) } };
    expect(tooLargeForNodes({ ...pullJob().spec, sandboxConfig })).toContain('spec.sandboxConfig: ');
    const pullSecrets = Array.from({ length: 65 }, () => 's');
    expect(tooLargeForNodes({ ...pullJob().spec, pullSecrets })).toContain('spec.pullSecrets: ');
    expect(tooLargeForNodes(pullJob().spec)).toBeUndefined();
  });

  it('says what holds it up: no parallelism, a silent engine, silent nodes', () => {
    expect(report(pullJob({ parallelism: 0 }), nodesAs('unasked')).status.waitingFor?.reason).toBe('NoParallelism');
    expect(report(pullJob(), nodesAs('active'), bornMs, engineSilent).status.waitingFor?.reason).toBe('EngineSilent');
    const engine = engineNoWorkers({ temporalNamespace: 'default', build: 'abc' });
    const own = { reason: 'EngineNoWorkers', blockedBy: ['taskqueue/cluster'] };
    for (const nodes of [nodesAs('active'), nodesAs('unasked')])
      expect(report(pullJob(), nodes, bornMs, engine).status.waitingFor).toMatchObject(own);
    const never = pullJob({ completionPolicy: { type: 'Never' } });
    expect(report(never, [], bornMs, engineSilent).status.waitingFor?.reason).toBe('NoNodes');
    const waitingFor = { reason: 'NodeSilent', blockedBy: [], blockedCount: 0, since: bornAt, unblock: '' };
    const [live] = nodesAs('active');
    if (!live?.status) throw new Error('no node');
    const silent = { ...live, status: { ...live.status, waitingFor } };
    expect(report(pullJob(), [silent]).status.waitingFor).toMatchObject({
      reason: 'NodeSilent',
      blockedBy: ['node/a'],
    });
    const [, other] = nodesAs('active', 'active');
    if (!other?.status) throw new Error('no node');
    const down = { ...other, status: { ...other.status, waitingFor: { ...waitingFor, reason: 'EngineNoDaemon' } } };
    expect(report(pullJob(), [silent, down]).status.waitingFor).toMatchObject({
      reason: 'EngineNoDaemon',
      blockedBy: ['node/a', 'node/b'],
    });
    expect(report(pullJob(), [down, ...nodesAs('active')]).status.waitingFor?.reason).toBe('Pulling');
  });

  it('EngineStuck: says that its own operation is stuck, which obeys no command, and that those of its nodes are', () => {
    const engine = engineStuck({ workflowId: 'pull-on-nodes/job', temporalNamespace: 'default', wasBegunAnew: true });
    const own = { reason: 'EngineStuck', blockedBy: ['workflow/pull-on-nodes/job'], unblock: engine.unblock };
    expect(report(pullJob(), nodesAs('active'), bornMs, engine).status.waitingFor).toMatchObject(own);
    expect(report(pullJob({ parallelism: 0 }), nodesAs('unasked'), bornMs, engine).status.waitingFor).toMatchObject(
      own,
    );

    const waitingFor = { reason: 'EngineStuck', blockedBy: [], blockedCount: 0, since: bornAt, unblock: '' };
    const [stuck, free] = nodesAs('active', 'active');
    if (!stuck?.status || !free) throw new Error('no node');
    const held = { ...stuck, status: { ...stuck.status, waitingFor } };
    expect(report(pullJob(), [held]).status.waitingFor).toMatchObject({
      reason: 'EngineStuck',
      blockedBy: [`nodeimage/${stuck.metadata.name}`],
      unblock: expect.stringContaining('NodeImages'),
    });
    expect(report(pullJob({ parallelism: 2 }), [held, free]).status.waitingFor?.reason).toBe('Pulling');
  });

  it('an aborted job ends at once and says which nodes have the image', () => {
    const condition = {
      type: 'Aborted',
      status: 'True',
      reason: 'Aborted',
      message: 'Aborted by ann',
      lastTransitionTime: bornAt,
    } as const;
    const status = { desired: 0, active: 0, succeeded: 0, failed: 0, conditions: [condition] };
    expect(report(pullJob({}, { status }), nodesAs('succeeded', 'active')).status).toMatchObject({
      message: 'aborted by ann; the image is on a',
      completionTime: bornAt,
      conditions: [{ type: 'Aborted' }, { type: 'Failed', reason: 'Aborted' }],
    });
  });

  it('keeps since when it waits, and takes a retry back once the nodes are told', () => {
    const first = report(pullJob(), nodesAs('active', 'unasked')).status;
    const later = report(pullJob({}, { status: first }), nodesAs('succeeded', 'active'), bornMs + 60_000).status;
    expect(later.waitingFor).toMatchObject({ reason: 'Pulling', since: bornAt, blockedBy: ['nodeimage/b'] });
    expect(retryTold([], 2, bornMs)).toMatchObject([
      { type: 'Retrying', status: 'False', message: '2 nodes pull again' },
    ]);
  });
});
