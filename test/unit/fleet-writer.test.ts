import { describe, expect, it } from '@jest/globals';
import { timestamp } from '../../api/base/time.ts';
import type { CloneSet, CloneSetStatus } from '../../api/cloneset/types.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import type { Pod } from '../../api/core/pod.ts';
import { newRevision } from '../../api/fleet/revision.ts';
import { KubeError } from '../../kube/failures.ts';
import type { KubeWriter } from '../../kube/fence.ts';
import type { CloneSetInput } from '../../plan/cloneset/input.ts';
import { planCloneSet } from '../../plan/cloneset/planner.ts';
import { cloneSetRevisions } from '../../plan/cloneset/revisions.ts';
import { type AsSeen, asSeen } from '../../plan/fleet/pods.ts';
import { type FleetStep, FleetWriter } from '../../watcher/fleet/writer.ts';
import { cloneSetSteps } from '../../watcher/kinds/cloneset/controller.ts';
import { cloneSet, newName, nowMs, pod, pods, revisionOf, template, world } from '../support/cloneset-world.ts';
import { permitForAll } from '../support/permits.ts';

type Body = { readonly [key: string]: unknown; readonly metadata?: Record<string, unknown> };

interface Call {
  readonly verb: string;
  readonly resource: string;
  readonly name: string;
  readonly body?: Body;
  readonly options?: unknown;
}

const conflict = () => new KubeError({ status: 409, message: 'the object has been modified', reason: 'Conflict' });
const taken = () => new KubeError({ status: 409, message: 'already exists', reason: 'AlreadyExists' });
const forbidden = () => new KubeError({ status: 403, message: 'exceeded quota', reason: 'Forbidden' });

const judged = () =>
  new KubeError({ status: 403, message: 'admission webhook "policy" denied the request: no', reason: 'Forbidden' });

interface Setting {
  /** Absent: the time of every test. */
  readonly now?: () => number;
  /** Throws in place of an answer. */
  readonly meet?: (call: Call) => void;
  /** What a read finds. */
  readonly live?: KubeObject;
  /** What a write of the status of a pod answers. */
  readonly drained?: Pod;
  /** The pod as the cache has it by then; absent: not at all. */
  readonly shown?: Pod;
  readonly isDrained?: () => Promise<readonly string[]>;
}

/** A writer whose calls are kept, and whose answers carry versions from 101 on. */
function writer(setting: Setting = {}) {
  const { meet, live, drained, shown, now = () => nowMs, isDrained = () => Promise.resolve([]) } = setting;
  const calls: Call[] = [];
  const seen: string[] = [];
  let version = 100;
  const call = (verb: string, resource: Resource, name: string, body?: unknown, options?: unknown): KubeObject => {
    const made: Call = {
      ...{ verb, resource: resource.plural, name },
      ...(body !== undefined && { body: body as Body }),
      ...(options !== undefined && { options }),
    };
    calls.push(made);
    meet?.(made);
    version += 1;
    return {
      apiVersion: '',
      kind: '',
      metadata: { name, uid: `${name}-uid`, resourceVersion: `${version}`, creationTimestamp: '' },
    };
  };
  const kube = {
    get: async (resource: Resource, { name }: { name: string }) => {
      call('get', resource, name);
      return live;
    },
    create: async (resource: Resource, body: Body, options?: { readonly dryRun?: boolean }) =>
      call(options?.dryRun ? 'try' : 'create', resource, String(body.metadata?.name), body),
    patch: async (resource: Resource, { name }: { name: string }, _type: string, body: unknown, options?: object) => {
      const answer = call(options && 'dryRun' in options ? 'try' : 'patch', resource, name, body, options);
      return options && 'subresource' in options ? (drained ?? answer) : answer;
    },
    delete: async (resource: Resource, { name }: { name: string }, options: object) =>
      void call('dryRun' in options ? 'try to delete' : 'delete', resource, name, undefined, options),
  } as unknown as KubeWriter;
  const cache = {
    seen: async (uid: string, resourceVersion: string) => void seen.push(`${uid}@${resourceVersion}`),
    deletionSeen: async (uid: string) => void seen.push(`${uid} gone`),
    byUid: () => shown,
  } as never;
  const caches = { owners: cache, pods: cache, claims: cache, revisions: cache, pullJobs: cache };
  const spent: string[] = [];
  const spend = (_: CloneSet, name: string) => void spent.push(name);
  const owed: string[] = [];
  const owe = (_: CloneSet, __: AsSeen, claims: readonly AsSeen[]) => void owed.push(...claims.map(({ name }) => name));
  const acting = new FleetWriter({
    ...cloneSetSteps,
    ...{ kube, caches, drains: { until: isDrained }, now, spend, owe },
  });
  const signal = new AbortController().signal;
  return {
    calls,
    seen,
    spent,
    owed,
    /** Verb, resource and name of all calls but Events. */
    made: () => callsOf(calls),
    /** The same without dry runs. */
    written: () => callsOf(calls).filter((call) => !call.startsWith('try')),
    events: () =>
      calls.filter(({ resource }) => resource === 'events').map(({ body }) => `${body?.reason}: ${body?.message}`),
    async act(step: FleetStep<CloneSetStatus>, given: CloneSetInput, mayGoOn = () => true) {
      const result = await acting.act(step, given, signal, mayGoOn);
      await result?.(signal);
      await new Promise((resolve) => setImmediate(resolve)); // for Events, which nobody waits for
      return result !== undefined;
    },
  };
}

function callsOf(calls: readonly Call[]): readonly string[] {
  return calls
    .filter(({ resource }) => resource !== 'events')
    .map(({ verb, resource, name }) => `${verb} ${resource}/${name}`);
}

/** A set of three old pods, and the update of the first of them that the planner wants. */
function update() {
  const given = world({ set: cloneSet({ replicas: 3 }), pods: pods('o', 3), permit: {} });
  const [step] = planCloneSet(given).disruption;
  if (step?.kind !== 'updatePod') throw new Error('no update is planned');
  const before = given.pods.find(({ metadata }) => metadata.name === step.pod.name);
  if (before === undefined) throw new Error('the pod is not there');
  return { given, step, before };
}

/** The pod after it was taken out of service, and what may have changed by then. */
function afterDrain(
  { metadata, spec, status }: Pod,
  change: { readonly labels?: Record<string, string>; readonly resourceVersion?: string } = {},
): Pod {
  const conditions = status?.conditions?.map((condition) =>
    ['InPlaceUpdateReady', 'Ready'].includes(condition.type)
      ? { ...condition, status: 'False', ...(condition.type !== 'Ready' && { reason: 'StartInPlaceUpdate' }) }
      : condition,
  );
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...metadata,
      resourceVersion: change.resourceVersion ?? '150',
      labels: { ...metadata.labels, ...change.labels },
    },
    spec,
    status: { ...status, ...(conditions && { conditions }) },
  };
}

describe('the writer of CloneSets', () => {
  it('CS-46: creates the claims of a pod and then the pod, and takes a claim that is there already', async () => {
    const { act, made, seen, events } = writer({
      meet: ({ name }) => {
        if (name === 'data-web-abcde') throw taken();
      },
    });
    const claims = [{ metadata: { name: 'data-web-abcde' } }, { metadata: { name: 'logs-web-abcde' } }];
    const step = { kind: 'createPod', name: 'web-abcde', claims, pod: { metadata: { name: 'web-abcde' } } } as const;
    expect(await act(step, world())).toBe(true);
    expect(made()).toEqual([
      'create persistentvolumeclaims/data-web-abcde',
      'create persistentvolumeclaims/logs-web-abcde',
      'create pods/web-abcde',
    ]);
    expect(seen).toEqual(['logs-web-abcde-uid@101', 'web-abcde-uid@102']);
    expect(events()).toEqual(['SuccessfulCreate: succeed to create pod web-abcde']);
  });

  it('tells why a pod could not be created, and passes it on', async () => {
    const { act, events } = writer({
      meet: ({ resource }) => {
        if (resource === 'pods') throw forbidden();
      },
    });
    const step = {
      kind: 'createPod',
      name: 'web-abcde',
      claims: [],
      pod: { metadata: { name: 'web-abcde' } },
    } as const;
    await expect(act(step, world())).rejects.toThrow('exceeded quota');
    await new Promise((resolve) => setImmediate(resolve));
    expect(events()).toEqual(['FailedCreate: failed to create pod: exceeded quota, pod: web-abcde']);
  });

  describe('CS-70: PVCs of a pod that cannot be created', () => {
    const step = (revision: string, ...names: readonly string[]) => ({
      ...({ kind: 'createPod', name: 'web-abcde' } as const),
      claims: names.map((name) => ({ metadata: { name } })),
      pod: { metadata: { name: 'web-abcde', labels: { 'controller-revision-hash': revision } } },
    });
    const tries = ['try persistentvolumeclaims/data', 'try pods/web-abcde'];
    const creations = ['create persistentvolumeclaims/data', 'create pods/web-abcde'];

    it.each([
      ['refuses the pod', forbidden],
      ['cannot ask a webhook', () => new KubeError({ status: 500, message: 'failed calling webhook' })],
    ])('are not created again while the API server %s', async (_, error) => {
      let isRefused = true;
      const { act, made, events } = writer({
        meet: ({ resource }) => {
          if (isRefused && resource === 'pods') throw error();
        },
      });
      for (const _ of [1, 2, 3]) await expect(act(step('old', 'data'), world())).rejects.toThrow(error().message);
      expect(made()).toEqual([...creations, ...tries, ...tries]);
      await new Promise((resolve) => setImmediate(resolve));
      const why = `FailedCreate: failed to create pod: ${error().message}, pod: web-abcde`;
      expect(new Set(events())).toEqual(new Set([why]));

      isRefused = false;
      await act(step('old', 'data'), world());
      await act(step('old', 'data'), world());
      expect(made().slice(6)).toEqual([...tries, ...creations, ...creations]);
    });

    it('nor while one of them is refused', async () => {
      const { act, made } = writer({
        meet: ({ name }) => {
          if (name === 'logs') throw forbidden();
        },
      });
      for (const _ of [1, 2]) await expect(act(step('old', 'data', 'logs'), world())).rejects.toThrow('exceeded quota');
      expect(made()).toEqual([
        'create persistentvolumeclaims/data',
        'create persistentvolumeclaims/logs',
        'try persistentvolumeclaims/data',
        'try persistentvolumeclaims/logs',
      ]);
    });

    it('and pods of another revision, and those without PVCs, take no call more', async () => {
      const { act, made } = writer({
        meet: ({ body }) => {
          if (JSON.stringify(body).includes('"old"')) throw forbidden();
        },
      });
      for (const _ of [1, 2]) await expect(act(step('old'), world())).rejects.toThrow('exceeded quota');
      await act(step('new', 'data'), world());
      expect(made()).toEqual(['create pods/web-abcde', 'create pods/web-abcde', ...creations]);
    });

    it('are created with a pod that has arrived without an answer', async () => {
      let lost = false;
      const { act, made } = writer({
        live: pod('web-abcde'),
        meet: ({ verb, resource }) => {
          if (resource !== 'pods' || verb === 'get') return;
          if (lost) throw taken();
          lost = true;
          throw new KubeError({ status: 0, message: 'no answer' });
        },
      });
      await expect(act(step('old', 'data'), world())).rejects.toThrow('no answer');
      expect(await act(step('old', 'data'), world())).toBe(true);
      expect(made()).toEqual([...creations, ...tries, ...creations, 'get pods/web-abcde']);
    });
  });

  describe('CS-31: a pod whose name is taken', () => {
    const step = {
      kind: 'createPod',
      name: 'web-abcde',
      claims: [],
      pod: { metadata: { name: 'web-abcde' } },
    } as const;
    const meet = ({ verb }: Call) => {
      if (verb === 'create') throw taken();
    };

    it('is there already, where a creation that was thought lost has arrived', async () => {
      const live = pod('web-abcde');
      const { act, seen, spent } = writer({ meet, live });
      expect(await act(step, world())).toBe(true);
      expect(seen).toEqual([`${live.metadata.uid}@${live.metadata.resourceVersion}`]);
      expect(spent).toEqual([]);
    });

    it.each([
      ['another’s', pod('web-abcde', { owner: null })],
      ['going', pod('web-abcde', { deleting: true })],
    ])('gets another name where that one is %s', async (_, live) => {
      const { act, spent } = writer({ meet, live });
      await expect(act(step, world())).rejects.toThrow('already exists');
      expect(spent).toEqual(['web-abcde']);
    });
  });

  const job = (name: string) => ({ metadata: { name }, spec: { image: `${name}:1` } });
  const preDownload = {
    kind: 'preDownload',
    jobs: [job('app'), job('log')],
    revision: { namespace: 'shop', name: newName, uid: 'r-uid', resourceVersion: '3' },
    marks: { metadata: { labels: { made: 'true' } } },
  } as const;

  it('PRE-2: makes the jobs that pull ahead, then marks the revision that it was decided on', async () => {
    const { act, made, seen, events, calls } = writer();
    expect(await act(preDownload, world())).toBe(true);
    expect(made()).toEqual([
      'create imagepulljobs/app',
      'create imagepulljobs/log',
      `patch controllerrevisions/${newName}`,
    ]);
    expect(seen).toHaveLength(3);
    expect(calls.find(({ verb }) => verb === 'patch')?.body).toEqual({
      metadata: { labels: { made: 'true' }, uid: 'r-uid', resourceVersion: '3' },
    });
    expect(events()).toEqual([
      'CreatedImagePullJob: created ImagePullJob app for image: app:1',
      'CreatedImagePullJob: created ImagePullJob log for image: log:1',
    ]);
  });

  it('PRE-2: takes a job that is there already, tells of one that is refused, and marks the revision', async () => {
    const { act, made, events } = writer({
      meet: ({ resource, name }) => {
        if (resource === 'imagepulljobs') throw name === 'app' ? taken() : judged();
      },
    });
    expect(await act(preDownload, world())).toBe(true);
    expect(made().at(-1)).toBe(`patch controllerrevisions/${newName}`);
    expect(events()).toEqual([`FailedCreateImagePullJob: failed to create ImagePullJob log: ${judged().message}`]);
  });

  it('PRE-2: asks again for jobs that were not allowed, though not in every look, and marks no revision', async () => {
    let isAllowed = false;
    let nowMs = 0;
    const { act, made, events } = writer({
      now: () => nowMs,
      meet: ({ resource }) => {
        if (resource === 'imagepulljobs' && !isAllowed) throw forbidden();
      },
    });
    expect(await act(preDownload, world())).toBe(false);
    expect(await act(preDownload, world())).toBe(false);
    expect(made()).toEqual(['create imagepulljobs/app']);
    expect(events()).toEqual(['FailedCreateImagePullJob: failed to create ImagePullJob app: exceeded quota']);
    isAllowed = true;
    nowMs = 30_000;
    expect(await act(preDownload, world())).toBe(true);
    expect(made().slice(1)).toEqual([
      'create imagepulljobs/app',
      'create imagepulljobs/log',
      `patch controllerrevisions/${newName}`,
    ]);
  });

  it('PRE-10: does not fail a pass for a job that nobody answers for, and leaves the revision unmarked', async () => {
    const { act, made } = writer({
      meet: ({ resource }) => {
        if (resource === 'imagepulljobs') throw new KubeError({ status: 503, message: 'away' });
      },
    });
    expect(await act(preDownload, world())).toBe(false);
    expect(made()).toEqual(['create imagepulljobs/app']);
  });

  it('CS-104: deletes the very job that it has seen', async () => {
    const { act, calls, seen } = writer();
    const seenJob = { namespace: 'shop', name: 'app', uid: 'app-uid', resourceVersion: '9' };
    expect(await act({ kind: 'deletePullJob', job: seenJob }, world())).toBe(true);
    expect(calls).toEqual([
      { verb: 'delete', resource: 'imagepulljobs', name: 'app', options: { preconditions: { uid: 'app-uid' } } },
    ]);
    expect(seen).toEqual(['app-uid gone']);
  });

  it('CS-35, CS-75: deletes the very pod that was chosen, and its claims only once that has been accepted', async () => {
    const seenPod = { namespace: 'shop', name: 'web-a', uid: 'a-uid', resourceVersion: '7' };
    const claim = { namespace: 'shop', name: 'data-web-a', uid: 'data-uid', resourceVersion: '3' };
    const step = { kind: 'deletePod', pod: seenPod, claims: [claim] } as const;
    const good = writer();
    expect(await good.act(step, world())).toBe(true);
    expect(good.made()).toEqual(['delete pods/web-a', 'delete persistentvolumeclaims/data-web-a']);
    expect(good.calls[0]?.options).toEqual({ preconditions: { uid: 'a-uid', resourceVersion: '7' } });
    expect(good.seen).toEqual(['a-uid gone', 'data-uid gone']);

    const late = writer({
      meet: () => {
        throw conflict();
      },
    });
    expect(await late.act(step, world())).toBe(false);
    expect(late.made()).toEqual(['delete pods/web-a']);
    expect(late.events()).toEqual([]);
    expect([good.owed, late.owed]).toEqual([['data-web-a'], []]);
  });

  it('M1, CS-35: deletes the claims of a deleted pod whatever has been written to them meanwhile', async () => {
    const seenPod = { namespace: 'shop', name: 'web-a', uid: 'a-uid', resourceVersion: '7' };
    const claim = { namespace: 'shop', name: 'data-web-a', uid: 'data-uid', resourceVersion: '3' };
    const { act, calls } = writer();
    await act({ kind: 'deletePod', pod: seenPod, claims: [claim] }, world());
    await act({ kind: 'deleteClaim', claim, ofDeletedPod: true }, world());
    await act({ kind: 'deleteClaim', claim }, world());
    const ofClaims = calls.filter(({ resource }) => resource === 'persistentvolumeclaims');
    expect(ofClaims.map(({ options }) => options)).toEqual([
      { preconditions: { uid: 'data-uid' } },
      { preconditions: { uid: 'data-uid' } },
      { preconditions: { uid: 'data-uid', resourceVersion: '3' } },
    ]);
  });

  it('AS-81: deletes no pod, and gives no PVC to one, once the workload has changed', async () => {
    const { act, calls } = writer();
    const [seen] = pods('o', 1).map(asSeen);
    if (seen === undefined) throw new Error('there is no pod');
    const given = world({ set: cloneSet() });
    expect(await act({ kind: 'deletePod', pod: seen, claims: [] }, given, () => false)).toBe(false);
    expect(await act({ kind: 'writeClaim', claim: seen, patch: {} }, given, () => false)).toBe(false);
    expect(calls).toEqual([]);
  });

  it('writes a pod step by step, each against the answer to the one before', async () => {
    const { act, calls } = writer();
    const seenPod = { namespace: 'shop', name: 'web-a', uid: 'a-uid', resourceVersion: '7' };
    const writes = [
      { kind: 'status', patch: { status: { conditions: [] } } },
      { kind: 'pod', patch: { metadata: { labels: { a: 'b' } } } },
    ] as const;
    await act({ kind: 'writePod', pod: seenPod, why: 'refresh', writes }, world());
    expect(calls.map(({ body, options }) => [body?.metadata, options])).toEqual([
      [{ uid: 'a-uid', resourceVersion: '7' }, { subresource: 'status' }],
      [{ labels: { a: 'b' }, uid: 'a-uid', resourceVersion: '101' }, {}],
    ]);
  });

  it('IPU-20: changes containers only after Services have let go, of the pod as it is then', async () => {
    const { given, step, before } = update();
    const log: string[] = [];
    const drained = Promise.withResolvers<readonly string[]>();
    const { act, calls, written, events } = writer({
      drained: afterDrain(before),
      isDrained: () => {
        log.push('waits');
        return drained.promise;
      },
    });
    const acted = act(step, given);
    await new Promise((resolve) => setImmediate(resolve));
    const { name } = step.pod;
    expect([log, written()]).toEqual([['waits'], [`patch pods/${name}`]]);
    drained.resolve([]);
    expect(await acted).toBe(true);
    expect(written()).toEqual([`patch pods/${name}`, `patch pods/${name}`]);
    const change = calls.filter(({ verb }) => verb === 'patch')[1]?.body;
    expect(change?.metadata).toMatchObject({ resourceVersion: '150', uid: `${step.pod.name}-uid` });
    expect(change?.spec).toMatchObject({ containers: [{ name: 'main', image: 'nginx:1.1' }] });
    expect(events()).toEqual([
      `SuccessfulUpdatePodInPlace: successfully update pod ${step.pod.name} in-place(revision ${newName})`,
    ]);
  });

  it('says on the pod that it goes on although Services still route to it', async () => {
    const { given, step, before } = update();
    const { act, events } = writer({ drained: afterDrain(before), isDrained: () => Promise.resolve(['web']) });
    await act(step, given);
    expect(events()[0]).toBe('NotDrained: Continuing although Services still route to this pod: web');
  });

  it.each([
    ['another revision by now', { labels: { 'controller-revision-hash': 'other' } }],
    ['been named for deletion', { labels: { 'apps.kruise.io/specified-delete': 'true' } }],
  ])('changes no container of a pod that has %s', async (_what, change) => {
    const { given, step, before } = update();
    const shown = afterDrain(before, { ...change, resourceVersion: '151' });
    const { act, written } = writer({ drained: afterDrain(before), shown });
    expect(await act(step, given)).toBe(true); // the drain was written
    expect(written()).toEqual([`patch pods/${step.pod.name}`]);
  });

  it.each([
    ['that is newer', '151', '151'],
    ['but for one that is older', '149', '150'],
  ])('changes the pod that the cache shows by then, %s', async (_what, resourceVersion, expected) => {
    const { given, step, before } = update();
    const { act, calls } = writer({
      drained: afterDrain(before),
      shown: afterDrain(before, { resourceVersion }),
    });
    await act(step, given);
    expect(calls.filter(({ verb }) => verb === 'patch')[1]?.body?.metadata).toMatchObject({
      resourceVersion: expected,
    });
  });

  it('changes no container once the leave has been taken back', async () => {
    const { given, step, before } = update();
    let mayGoOn = true;
    const { act, written } = writer({
      drained: afterDrain(before),
      isDrained: async () => {
        mayGoOn = false;
        return [];
      },
    });
    await act(step, given, () => mayGoOn);
    expect(written()).toEqual([`patch pods/${step.pod.name}`]);
  });

  it('P-9: drains no pod of which the leave was taken back during the dry run before it', async () => {
    const { given, step, before } = update();
    let mayGoOn = true;
    const meet = ({ verb }: Call) => {
      if (verb === 'try') mayGoOn = false;
    };
    const { act, written } = writer({ drained: afterDrain(before), meet });
    expect(await act(step, given, () => mayGoOn)).toBe(false);
    expect(written()).toEqual([]);
  });

  describe('P-7: an update that takes its pod out of service', () => {
    const ofUpdate = ({ verb, body }: Call) => (verb === 'try' || verb === 'patch') && body?.spec !== undefined;

    it('is tried in a dry run first, and the pod stays in service when that is refused', async () => {
      const { given, step, before } = update();
      const meet = (call: Call) => {
        if (ofUpdate(call)) throw judged();
      };
      const { act, written, events } = writer({ drained: afterDrain(before), meet });
      await expect(act(step, given)).rejects.toThrow('denied the request');
      expect(written()).toEqual([]);
      expect(events()).toEqual([expect.stringContaining('FailedUpdatePodInPlace')]);
    });

    it('is not even begun where what follows a grace period is refused', async () => {
      const set = cloneSet({ replicas: 3, rollingUpdate: { inPlaceUpdateStrategy: { gracePeriodSeconds: 10 } } });
      const given = world({ set, pods: pods('o', 3), permit: {} });
      const [step] = planCloneSet(given).disruption;
      if (step === undefined) throw new Error('no update is planned');
      const meet = (call: Call) => {
        if (ofUpdate(call)) throw judged();
      };
      const { act, written } = writer({ meet });
      await expect(act(step, given)).rejects.toThrow('denied the request');
      expect(written()).toEqual([]);
    });

    it.each([
      ['nginx:1.0', 'and nothing else'],
      ['nginx:1.1', 'and a new image'],
    ])('tries a resize each time, before anything of it is written (%s: %s)', async (image) => {
      const withCpu = (cpu: string, of: string) =>
        template(of, { containers: [{ name: 'main', image: of, resources: { requests: { cpu } } }] });
      const set = cloneSet({ replicas: 3, template: withCpu('2', image), rollingUpdate: { maxUnavailable: 3 } });
      const old = revisionOf(set, 1, withCpu('1', 'nginx:1.0'));
      const containers = [{ name: 'main', image: 'nginx:1.0', resources: { requests: { cpu: '1' } } }];
      const small = pods('o', 3, { revision: old.metadata.name }).map((one) => ({
        ...one,
        spec: { ...one.spec, containers },
      }));
      const fresh = revisionOf(set, 2);
      const gates = ['InPlaceWorkloadVerticalScaling'] as const;
      const permitted = permitForAll(fresh.metadata.name);
      const given = world({ set, gates, pods: small, revisions: [old, fresh], permit: permitted });
      const [first, second] = planCloneSet(given).disruption;
      const [before] = small;
      if (first === undefined || second === undefined || before === undefined)
        throw new Error('no updates are planned');
      let isQuotaSpent = false;
      const meet = ({ options }: Call) => {
        const { subresource } = (options ?? {}) as { readonly subresource?: string };
        if (isQuotaSpent && subresource === 'resize') throw forbidden();
      };
      const { act, written } = writer({ meet, drained: afterDrain(before) });
      await act(first, given);
      const { length } = written();
      isQuotaSpent = true;
      await expect(act(second, given)).rejects.toThrow('exceeded quota');
      expect(written().slice(length)).toEqual([]);
    });

    it('is refused as well where its pod may not be taken out of service', async () => {
      const { given, step } = update();
      const meet = ({ options }: Call) => {
        if (options && 'subresource' in (options as object)) throw forbidden();
      };
      const { act, written } = writer({ meet });
      await expect(act(step, given)).rejects.toThrow('exceeded quota');
      expect(written()).toEqual([]);
    });

    it('needs no dry run once one to that revision was accepted, until the next is refused', async () => {
      const { given, step, before } = update();
      let isRefused = false;
      const meet = (call: Call) => {
        if (isRefused && ofUpdate(call)) throw judged();
      };
      const { act, made } = writer({ drained: afterDrain(before), meet });
      const dryRuns = () => made().filter((call) => call.startsWith('try')).length;
      await act(step, given);
      await act(step, given);
      expect(dryRuns()).toBe(2); // out of service, and all that follows
      isRefused = true;
      await expect(act(step, given)).rejects.toThrow('denied');
      await expect(act(step, given)).rejects.toThrow('denied');
      expect(dryRuns()).toBe(4);
      expect(made().at(-1)).toBe(`try pods/${step.pod.name}`);
    });

    it('goes on where a webhook takes no dry runs, as that says nothing', async () => {
      const { given, step, before } = update();
      const meet = ({ verb }: Call) => {
        if (verb === 'try')
          throw new KubeError({ status: 400, message: 'admission webhook "guard" does not support dry run' });
      };
      const { act } = writer({ drained: afterDrain(before), meet });
      expect(await act(step, given)).toBe(true);
    });

    it('is left to the next look when the pod has changed before the dry run', async () => {
      const { given, step, before } = update();
      const meet = ({ verb }: Call) => {
        if (verb === 'try') throw conflict();
      };
      const { act, written } = writer({ drained: afterDrain(before), meet });
      expect(await act(step, given)).toBe(false);
      expect(written()).toEqual([]);
    });
  });

  it('changes no container of a pod of the same name', async () => {
    const { given, step, before } = update();
    const other = afterDrain(before);
    const { act, written } = writer({
      drained: afterDrain(before),
      live: { ...other, metadata: { ...other.metadata, uid: 'another' } },
      meet: ({ verb, body }) => {
        if (verb === 'patch' && body?.spec !== undefined) throw conflict();
      },
    });
    await act(step, given);
    const { name } = step.pod;
    expect(written()).toEqual([`patch pods/${name}`, `patch pods/${name}`, `get pods/${name}`]);
  });

  it('P-7: a conflict of a pod that is as it was sent is a refusal', async () => {
    const { given, step, before } = update();
    const meet = ({ verb }: Call) => {
      if (verb === 'try') throw conflict();
    };
    const moved = writer({
      meet,
      shown: before,
      live: { ...before, metadata: { ...before.metadata, resourceVersion: '9' } },
    });
    expect(await moved.act(step, given)).toBe(false);
    const same = writer({ meet, shown: before, live: before });
    await expect(same.act(step, given)).rejects.toMatchObject({ type: 'Denied', message: conflict().message });
  });

  it('updates a pod again that is out of service for the update before', async () => {
    const { given, step, before } = update();
    const at = timestamp(nowMs);
    const closed = afterDrain(before);
    const conditions = closed.status?.conditions?.map((one) => ({ ...one, lastTransitionTime: at }));
    const record = { revision: 'bad', updateTimestamp: at, lastContainerStatuses: {}, containerBatchesRecord: [] };
    const annotations = { 'apps.kruise.io/inplace-update-state': JSON.stringify(record) };
    const unfinished = (pod: Pod): Pod => ({
      ...pod,
      metadata: {
        ...pod.metadata,
        annotations,
        labels: { ...pod.metadata.labels, 'lifecycle.apps.kruise.io/state': 'Updating' },
      },
      status: { ...pod.status, ...(conditions && { conditions }) },
    });
    const pods = given.pods.map((pod) => (pod === before ? unfinished(pod) : pod));
    const { act, written } = writer({ drained: unfinished(closed) });
    await act(step, { ...given, pods });
    expect(written()).toHaveLength(2);
  });

  it('looks again when the kubelet was faster', async () => {
    const { given, step, before } = update();
    let refused = 0;
    const { act, made } = writer({
      drained: afterDrain(before),
      live: afterDrain(before, { resourceVersion: '152' }),
      meet: ({ verb, body }) => {
        if (verb === 'patch' && body?.spec !== undefined && refused++ === 0) throw conflict();
      },
    });
    await act(step, given);
    expect(made().filter((call) => call.startsWith('get'))).toHaveLength(1);
    expect(made().filter((call) => call.startsWith('patch'))).toHaveLength(3);
  });

  it('CS-83: takes a revision that is there already, and counts a collision when it is another one', async () => {
    const set = cloneSet();
    const revision = newRevision(cloneSetRevisions.ownerOf(set), 2);
    const meet = ({ verb, resource }: Call) => {
      if (verb === 'create' && resource === 'controllerrevisions') throw taken();
    };
    const same = writer({ meet, live: revisionOf(set, 2) });
    expect(await same.act({ kind: 'createRevision', revision }, world({ set }))).toBe(true);
    expect(same.made().at(-1)).toMatch(/^get/);

    const other = writer({ meet, live: { ...revisionOf(set, 2), data: {} } as KubeObject });
    await other.act({ kind: 'createRevision', revision }, world({ set }));
    expect(other.calls.at(-1)).toMatchObject({ verb: 'patch', body: { status: { collisionCount: 1 } } });
  });

  it('CS-84: creates no revision that would not be found again', async () => {
    const set = cloneSet();
    const made = newRevision(cloneSetRevisions.ownerOf(set), 2);
    const revision = { ...made, metadata: { ...made.metadata, labels: { app: 'db' } } };
    const { act, calls } = writer();
    await expect(act({ kind: 'createRevision', revision }, world({ set }))).rejects.toMatchObject({ type: 'Invalid' });
    expect(calls).toEqual([]);
  });

  it('tells of 25 pods, and not of thousands', async () => {
    const { act, events } = writer();
    for (let index = 0; index < 40; index++) {
      const name = `web-${index}`;
      await act({ kind: 'createPod', name, claims: [], pod: { metadata: { name } } }, world());
    }
    expect(events()).toHaveLength(25);
  });

  it('takes off the status what is no longer said, and leaves a set alone that has changed meanwhile', async () => {
    const waitingFor = { reason: 'NotReady', blockedBy: [], blockedCount: 0, since: '', unblock: '' };
    const set = cloneSet({}, { status: { waitingFor } });
    const { waitingFor: _, ...status } = set.status ?? {};
    const step = { kind: 'writeStatus', status: status as NonNullable<typeof set.status> } as const;
    const { act, calls } = writer();
    await act(step, world({ set }));
    expect(calls[0]).toMatchObject({ body: { status: { waitingFor: null } }, options: { subresource: 'status' } });

    const late = writer({
      meet: () => {
        throw conflict();
      },
    });
    expect(await late.act(step, world({ set }))).toBe(false);
  });

  it('marks a pod that is to be recreated, and tells of it', async () => {
    const { act, events, made } = writer();
    const given = pod('web-a');
    const { name, uid, resourceVersion } = given.metadata;
    const writes = [
      { kind: 'pod', patch: { metadata: { labels: { 'apps.kruise.io/specified-delete': 'true' } } } },
    ] as const;
    const of = { pod: { namespace: 'shop', name, uid, resourceVersion }, revision: newName };
    const mark = { write: writes[0], trial: { ...of, writes, deletes: true } } as const;
    const step = { kind: 'recreatePod', ...of, mark } as const;
    await act(step, world());
    expect(events()[0]).toContain('SuccessfulUpdatePodReCreate');
    const call = `pods/${name}`;
    expect(made()).toEqual([`try ${call}`, `try to delete ${call}`, `patch ${call}`]);
    await act(step, world());
    expect(made().slice(3)).toEqual([`patch ${call}`]);
  });

  it('deletes a pod that is to be recreated without a mark, in the version that was seen', async () => {
    const { act, made } = writer();
    const { name, uid, resourceVersion } = pod('web-a').metadata;
    const seen = { namespace: 'shop', name, uid, resourceVersion };
    await act({ kind: 'recreatePod', pod: { ...seen, resourceVersion: 'other' }, revision: newName }, world());
    await act({ kind: 'recreatePod', pod: seen, revision: newName }, world());
    expect(made()).toEqual([`delete pods/${name}`, `delete pods/${name}`]);
  });
});
