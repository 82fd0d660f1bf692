import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { applyPatch, type Operation } from 'rfc6902';
import type { JsonObject } from '../../api/base/json.ts';
import { installation, kubeResource } from '../../api/core/well-known.ts';
import { protectedKinds } from '../../api/deletion-protection.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { webhooks } from '../../api/webhooks.ts';
import type { WriteOptions } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';
import { cloneSetRules } from '../../webhook/cloneset.ts';
import { reviewDeletion } from '../../webhook/deletion-protection.ts';
import { dependantsIn } from '../../webhook/review/dependants.ts';
import { lookUpsIn } from '../../webhook/review/look-ups.ts';
import { type PodTrials, podTrialsIn, type Trial } from '../../webhook/review/pod-trial.ts';
import { admissionRoute, LookUpFailed, type Review } from '../../webhook/review/review.ts';
import { type Answer, MalformedBody } from '../../webhook/server/server.ts';
import { reviewWorkload, reviewWorkloadDefaults } from '../../webhook/workload.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { cloneSetDraft } from '../support/objects/cloneset.ts';

const noSignal = new AbortController().signal;

function set(version: string, spec: object = {}, metadata: object = {}): JsonObject {
  return cloneSetDraft({ version, metadata: { uid: 'set-uid', ...metadata }, spec });
}

interface Reviewed {
  readonly response: {
    readonly allowed: boolean;
    readonly patch?: string;
    readonly warnings?: readonly string[];
    readonly status?: {
      readonly code: number;
      readonly reason: string;
      readonly message: string;
      readonly details: { readonly causes: readonly object[] };
    };
  };
}

interface Given {
  readonly operation?: string;
  readonly object?: unknown;
  readonly oldObject?: unknown;
  readonly options?: object;
}

async function ask(review: Review, given: Given): Promise<Reviewed['response']> {
  const body = {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: 'review-1',
      kind: { group: 'apps.kruise.io', version: 'v1beta1', kind: 'CloneSet' },
      operation: given.operation ?? 'CREATE',
      namespace: 'shop',
      name: 'web',
      dryRun: false,
      object: given.object ?? null,
      oldObject: given.oldObject ?? null,
      ...(given.options && { options: given.options }),
    },
  };
  const answer = (await admissionRoute(review, { whenFailed: 'refuse' })(body, noSignal)) as Answer & {
    body: Reviewed;
  };
  return answer.body.response;
}

/** Trials with a fixed result, and the pods that they received. */
function trials(trial: Trial = { kind: 'accepted' }): PodTrials & { readonly asked: JsonObject[] } {
  const asked: JsonObject[] = [];
  return {
    asked,
    tryPod(pod) {
      asked.push(pod);
      return Promise.resolve(trial);
    },
  };
}

function judge(options: { trials?: PodTrials; gates?: string; cluster?: MemoryCluster } = {}): Review {
  const gates = parseFeatureGates(options.gates);
  const client = (options.cluster ?? new MemoryCluster()).client();
  return reviewWorkload(cloneSetRules, {
    gates,
    lookUps: lookUpsIn(client),
    trials: options.trials ?? trials(),
    deletion: reviewDeletion(protectedKinds.CloneSet, { gates, dependants: dependantsIn(client) }),
  });
}

const defaults = reviewWorkloadDefaults(cloneSetRules, parseFeatureGates());

describe('mutating admission of CloneSets', () => {
  it('is served at the path of the registrations', () => {
    expect(webhooks.CloneSet.mutating.path).toBe('/mutate-apps-kruise-io-cloneset');
  });

  it.each(['v1alpha1', 'v1beta1'])('stores what the user applied in %s as OpenKruise does', async (version) => {
    const url = new URL(`../recorded/cloneset-1-created-${version}.json`, import.meta.url);
    const stored = JSON.parse(readFileSync(url, 'utf8'));
    const { spec, ...rest } = stored;
    const { replicas, selector, template, updateStrategy, scaleStrategy } = spec;
    const typed = structuredClone({ ...rest, spec: { replicas, selector, template, updateStrategy, scaleStrategy } });
    const { allowed, patch } = await ask(defaults, { object: typed });
    expect(allowed).toBe(true);
    const operations = JSON.parse(Buffer.from(patch ?? '', 'base64').toString()) as Operation[];
    expect(applyPatch(typed, operations).every((failure) => failure === null)).toBe(true);
    expect(typed).toEqual(stored);
  });

  it('leaves the template of an update alone that changes something else', async () => {
    const before = set('v1beta1');
    const response = await ask(defaults, {
      operation: 'UPDATE',
      object: set('v1beta1', { replicas: 7 }),
      oldObject: before,
    });
    const patch = Buffer.from(response.patch ?? '', 'base64').toString();
    expect(patch).toContain('/spec/revisionHistoryLimit');
    expect(patch).not.toContain('/spec/template');
  });

  it('does not change a CloneSet that is being deleted, nor deletions', async () => {
    const going = set('v1beta1', {}, { deletionTimestamp: '2026-11-21T06:00:00Z' });
    expect(await ask(defaults, { operation: 'UPDATE', object: going, oldObject: going })).toEqual({
      uid: 'review-1',
      allowed: true,
    });
    expect(await ask(defaults, { operation: 'DELETE', oldObject: set('v1beta1') })).toMatchObject({ allowed: true });
  });

  it('rejects an object that is not a CloneSet', async () => {
    await expect(ask(defaults, { object: { apiVersion: 'apps/v1', kind: 'Deployment' } })).rejects.toThrow(
      MalformedBody,
    );
    await expect(ask(defaults, {})).rejects.toThrow(MalformedBody);
  });
});

describe('validating admission of CloneSets', () => {
  it('is served at the path of the registrations', () => {
    expect(webhooks.CloneSet.validating.path).toBe('/validate-apps-kruise-io-cloneset');
  });

  it.each(['v1alpha1', 'v1beta1'])('allows a good set of %s', async (version) => {
    expect(await ask(judge(), { object: set(version) })).toEqual({ uid: 'review-1', allowed: true });
  });

  it('refuses a bad set with 422 and all problems, each with its kind', async () => {
    const { status } = await ask(judge(), { object: set('v1beta1', { replicas: -1, selector: null }) });
    expect(status).toMatchObject({
      code: 422,
      reason: 'Invalid',
      message: expect.stringMatching(/^spec\.replicas: Invalid value: -1: .*; spec\.selector: Required value: /),
      details: {
        name: 'web',
        kind: 'CloneSet',
        causes: [
          { reason: 'FieldValueInvalid', field: 'spec.replicas' },
          { reason: 'FieldValueRequired', field: 'spec.selector' },
        ],
      },
    });
  });

  it('validates the pods by a dry run, and reports the field path in the CloneSet', async () => {
    const causes = [{ field: 'spec.containers[0].image', message: 'Required value', reason: 'FieldValueRequired' }];
    const refusing = trials({ kind: 'refused', causes });
    const { status } = await ask(judge({ trials: refusing }), { object: set('v1beta1') });
    expect(status).toMatchObject({ code: 422, message: 'spec.template.spec.containers[0].image: Required value' });
    expect(refusing.asked).toMatchObject([{ kind: 'Pod', metadata: { namespace: installation.dryRunNamespace } }]);
  });

  it('makes another dry run only when the pods would change', async () => {
    const asking = trials();
    const review = judge({ trials: asking });
    const before = set('v1beta1');
    await ask(review, { operation: 'UPDATE', object: set('v1beta1', { replicas: 9 }), oldObject: before });
    expect(asking.asked).toHaveLength(0);
    const template = { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'app', image: 'app:2' }] } };
    await ask(review, { operation: 'UPDATE', object: set('v1beta1', { template }), oldObject: before });
    expect(asking.asked).toHaveLength(1);
  });

  it('makes no dry run of a template above a limit', async () => {
    const asking = trials();
    const volumeClaimTemplates = Array.from({ length: 20_000 }, () => ({}));
    const { status } = await ask(judge({ trials: asking }), { object: set('v1beta1', { volumeClaimTemplates }) });
    expect(status).toMatchObject({ code: 422, message: expect.stringContaining('must not have more than 256 items') });
    expect(asking.asked).toEqual([]);
  });

  it('allows with a warning a template that the API server did not validate', async () => {
    const silent = trials({ kind: 'unanswered', why: 'a policy forbids it' });
    const response = await ask(judge({ trials: silent }), { object: set('v1beta1') });
    expect(response).toMatchObject({
      allowed: true,
      warnings: ['spec.template could not be checked: a policy forbids it'],
    });
  });

  describe('about fields that no pod has, as with a Deployment', () => {
    const unknown = ['metadata.lables', 'spec.containers[0].enviroment'];
    const answer = (fieldValidation?: string) =>
      ask(judge({ trials: trials({ kind: 'accepted', unknown }) }), {
        object: set('v1beta1'),
        options: { kind: 'CreateOptions', ...(fieldValidation && { fieldValidation }) },
      });

    it('rejects the object with every path where the client asks for strict validation', async () => {
      const { allowed, status } = await answer('Strict');
      expect(allowed).toBe(false);
      expect(status).toMatchObject({
        code: 422,
        message:
          'spec.template.metadata.lables: unknown field; spec.template.spec.containers[0].enviroment: unknown field',
      });
    });

    it.each(['Warn', undefined])('warns of each where it asks for %s', async (asked) => {
      expect(await answer(asked)).toMatchObject({
        allowed: true,
        warnings: [
          'unknown field "spec.template.metadata.lables"',
          'unknown field "spec.template.spec.containers[0].enviroment"',
        ],
      });
    });

    it('says nothing where it asks to ignore them', async () => {
      expect(await answer('Ignore')).toEqual({ uid: 'review-1', allowed: true });
    });
  });

  it('refuses with 500 when the API server cannot be asked, so that the user tries again', async () => {
    const failing: PodTrials = {
      tryPod: () => Promise.reject(new LookUpFailed('Cannot check the pod template by a dry run: away')),
    };
    const { status } = await ask(judge({ trials: failing }), { object: set('v1beta1') });
    expect(status).toMatchObject({ code: 500, message: 'Cannot check the pod template by a dry run: away' });
  });

  it('warns in v1beta1 that PVCs are not kept', async () => {
    const object = set('v1beta1', { volumeClaimTemplates: [{ metadata: { name: 'data' } }] });
    const { allowed, warnings } = await ask(judge(), { object });
    expect(allowed).toBe(true);
    expect(warnings?.[0]).toContain('enablePVCReuse');
  });

  it('rejects another selector, and accepts any change of a CloneSet that is being deleted', async () => {
    const after = set('v1beta1', { selector: { matchLabels: { app: 'api' } } });
    const update = (object: JsonObject) => ask(judge(), { operation: 'UPDATE', object, oldObject: set('v1beta1') });
    expect((await update(after)).status?.details.causes).toMatchObject([
      { reason: 'FieldValueForbidden', field: 'spec' },
      { field: 'spec.template.metadata.labels' },
    ]);
    const going = (object: JsonObject) => ({
      ...object,
      metadata: { name: 'web', deletionTimestamp: '2026-11-21T06:00:00Z' },
    });
    const given = { operation: 'UPDATE', object: going(after), oldObject: going(set('v1beta1')) };
    expect(await ask(judge(), given)).toMatchObject({ allowed: true });
  });

  it('L2: checks and defaults a new set that carries a deletionTimestamp, as one by server-side apply may', async () => {
    const object = set('v1beta1', { replicas: -1 }, { deletionTimestamp: '2026-11-21T06:00:00Z' });
    expect((await ask(judge(), { object })).status?.details.causes).toMatchObject([{ field: 'spec.replicas' }]);
    expect((await ask(defaults, { object })).patch).toBeDefined();
    const update = { operation: 'UPDATE', object, oldObject: set('v1beta1') };
    expect((await ask(judge(), update)).allowed).toBe(false);
  });

  it('in v1alpha1 looks at each pod that is newly named', async () => {
    const cluster = new MemoryCluster();
    const owner = {
      apiVersion: 'apps.kruise.io/v1beta1',
      kind: 'CloneSet',
      name: 'web',
      uid: 'set-uid',
      controller: true,
    };
    cluster.put(kubeResource.pods, {
      metadata: { name: 'web-a', namespace: 'shop', ownerReferences: [owner] },
      spec: {},
    });
    cluster.put(kubeResource.pods, { metadata: { name: 'web-b', namespace: 'shop' }, spec: {} });
    const named = (names: readonly string[]) => set('v1alpha1', { scaleStrategy: { podsToDelete: names } });
    const update = (before: readonly string[], after: readonly string[]) =>
      ask(judge({ cluster }), { operation: 'UPDATE', object: named(after), oldObject: named(before) });

    expect(await update([], ['web-a'])).toMatchObject({ allowed: true });
    expect(await update(['gone'], ['gone', 'web-a'])).toMatchObject({ allowed: true });
    expect((await update([], ['web-a', 'web-b', 'gone'])).status?.message).toBe(
      'spec.scaleStrategy.podsToDelete: Invalid value: "web-b": the pod does not belong to this CloneSet; ' +
        'spec.scaleStrategy.podsToDelete: Invalid value: "gone": there is no such pod',
    );
    expect((await ask(judge({ cluster }), { object: named(['web-b']) })).status?.code).toBe(422);
  });

  describe('CS-72: a PVC template that is removed while partition keeps pods that mount it', () => {
    const claims = [{ metadata: { name: 'data' }, spec: {} }];
    const template = (mounts: readonly string[], volumes: readonly object[] = []) => {
      const volumeMounts = mounts.map((name) => ({ name, mountPath: `/${name}` }));
      return { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'main', volumeMounts }], volumes } };
    };
    const strategies = {
      v1alpha1: (partition: number) => ({ updateStrategy: { partition } }),
      v1beta1: (partition: number) => ({ updateStrategy: { rollingUpdate: { partition } } }),
    };
    const status = { updateRevision: 'web-second', currentRevision: 'web-second' };
    interface Edit {
      readonly version?: 'v1alpha1' | 'v1beta1';
      readonly partition?: number;
      readonly before?: object;
      readonly after?: object;
      readonly current?: string;
      readonly cluster?: MemoryCluster;
    }
    const warnings = async (edit: Edit) => {
      const { version = 'v1beta1', partition = 1, before, after, current = 'web-second', cluster } = edit;
      const base = { replicas: 3, ...strategies[version](partition) };
      const had = { ...base, template: template(['data']), volumeClaimTemplates: claims, ...before };
      const answer = await ask(judge({ ...(cluster && { cluster }) }), {
        ...{ operation: 'UPDATE', object: set(version, { ...base, template: template([]), ...after }) },
        oldObject: { ...set(version, had), status: { ...status, currentRevision: current } },
      });
      expect(answer.allowed).toBe(true);
      return (answer.warnings ?? []).filter((text) => text.includes('partition'));
    };
    const warning = (revision: string) =>
      `spec.volumeClaimTemplates: without "data", which container "main" of revision ${revision} mounts, ` +
      'no pod of it can be created again, and partition keeps pods there';

    it.each(['v1alpha1', 'v1beta1'] as const)('is named in %s, with the revision and the mount', async (version) => {
      expect(await warnings({ version })).toEqual([warning('web-second')]);
      // a warning of more than 256 characters is cut by the API server
      expect(warning('web-second').length).toBeLessThan(200);
    });

    it.each([
      ['no pod is kept', { partition: 0 }],
      ['nothing mounts it', { before: { template: template([]) } }],
      ['the template stays', { after: { volumeClaimTemplates: claims } }],
      ['pods have a volume of this name', { before: { template: template(['data'], [{ name: 'data' }]) } }],
      ['an earlier revision is gone', { before: { template: template([]) }, current: 'web-first' }],
    ] as const)('is no reason for a warning where %s', async (_, edit) => {
      expect(await warnings(edit)).toEqual([]);
    });

    it('is looked for in no revision whose name none can have', async () => {
      const cluster = new MemoryCluster();
      const before = { template: template([]) };
      expect(await warnings({ before, current: `../${'a'.repeat(300)}`, cluster })).toEqual([]);
      expect(cluster.calls.filter((made) => made.includes('controllerrevisions'))).toEqual([]);
    });

    it('is named, too, where the mount was removed before it', async () => {
      const cluster = new MemoryCluster();
      const metadata = { namespace: 'shop', name: 'web-first' };
      const data = { spec: { template: template(['data']) } };
      cluster.put(kubeResource.controllerRevisions, { metadata, data, revision: 1 } as never);
      const before = { template: template([]) };
      expect(await warnings({ before, current: 'web-first', cluster })).toEqual([warning('web-first')]);
    });
  });

  it('looks up 100 newly named pods of one review, and each of them once for reviews at one time', async () => {
    const cluster = new MemoryCluster();
    const owner = {
      apiVersion: 'apps.kruise.io/v1beta1',
      kind: 'CloneSet',
      name: 'web',
      uid: 'set-uid',
      controller: true,
    };
    const names = Array.from({ length: 102 }, (_, index) => `web-${index}`);
    for (const name of names.slice(0, 100)) {
      cluster.put(kubeResource.pods, { metadata: { name, namespace: 'shop', ownerReferences: [owner] }, spec: {} });
    }
    const client = cluster.client();
    const asked: string[] = [];
    const lookUps = lookUpsIn({
      list: (resource, options) => client.list(resource, options),
      get: (resource, ref, options) => {
        asked.push(ref.name);
        return client.get(resource, ref, options);
      },
    });
    const deletion = () => ({ kind: 'allowed' }) as const;
    const review = reviewWorkload(cloneSetRules, { gates: parseFeatureGates(), lookUps, trials: trials(), deletion });
    const update = (podsToDelete: readonly string[]) =>
      ask(review, {
        ...{ operation: 'UPDATE', object: set('v1alpha1', { scaleStrategy: { podsToDelete } }) },
        oldObject: set('v1alpha1', {}),
      });
    const answers = await Promise.all([update(names), update(names), update(names)]);
    for (const { allowed, warnings } of answers) {
      expect(allowed).toBe(true);
      expect(warnings).toEqual([expect.stringContaining('podsToDelete: 2 more names')]);
    }
    expect(asked).toEqual(names.slice(0, 100));
  });

  it('ends a shared look-up for those only whose time is up', async () => {
    const answer = Promise.withResolvers<never>();
    const signals: AbortSignal[] = [];
    const lookUps = lookUpsIn({
      list: () => answer.promise,
      get: (_resource, _ref, options) => {
        if (options?.signal) signals.push(options.signal);
        return answer.promise;
      },
    });
    const [first, second] = [new AbortController(), new AbortController()];
    const looks = [first, second].map(({ signal }) => lookUps.pod('shop', 'web', signal).catch(String));
    first.abort(new Error('late'));
    expect(await looks[0]).toContain('Cannot look up Pod "shop/web": late');
    expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
    second.abort(new Error('later'));
    expect(await looks[1]).toContain('later');
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
  });

  it('keeps a protected set from being deleted while the gate is on', async () => {
    const labels = { 'policy.kruise.io/delete-protection': 'Always' };
    const oldObject = set('v1beta1', {}, { labels });
    const remove = (gates: string) => ask(judge({ gates }), { operation: 'DELETE', oldObject });
    expect(await remove('')).toMatchObject({ allowed: true });
    expect((await remove('ResourcesDeletionProtection=true')).status).toMatchObject({
      code: 403,
      message: 'forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Always',
    });
  });

  it.each([
    ['', 'Always', '"Always" gives no protection from deletion: feature gate ResourcesDeletionProtection is off'],
    [
      'ResourcesDeletionProtection=true',
      'always',
      '"always" gives no protection from deletion: only Always and Cascading do',
    ],
  ])(
    'with gates "%s" warns that label delete-protection=%s does nothing, whenever it sees it',
    async (gates, value, text) => {
      const labelled = set('v1beta1', {}, { labels: { 'policy.kruise.io/delete-protection': value } });
      const warnings = [`metadata.labels[policy.kruise.io/delete-protection]: ${text}`];
      const review = judge({ gates });
      expect(await ask(review, { object: labelled })).toMatchObject({ allowed: true, warnings });
      const update = { operation: 'UPDATE', object: labelled, oldObject: set('v1beta1') };
      expect(await ask(review, update)).toMatchObject({ allowed: true, warnings });
      expect(await ask(review, { operation: 'DELETE', oldObject: labelled })).toMatchObject({
        allowed: true,
        warnings,
      });
      expect(await ask(review, { object: set('v1beta1') })).not.toHaveProperty('warnings');
    },
  );

  it('rejects an object that is not a CloneSet, or an update without the old object', async () => {
    await expect(ask(judge(), { object: { apiVersion: 'apps/v1' } })).rejects.toThrow(MalformedBody);
    await expect(ask(judge(), { operation: 'UPDATE', object: set('v1beta1') })).rejects.toThrow(MalformedBody);
  });
});

describe('trials of pods', () => {
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { namespace: installation.dryRunNamespace }, spec: {} };

  /** An API server with these answers, one after the other. */
  function client(...answers: readonly (object | undefined)[]) {
    const calls: { resource: string; object: object; options: object }[] = [];
    const left = [...answers];
    const warnings: string[] = [];
    return {
      calls,
      warnings,
      create(resource: { readonly plural: string }, object: object, options: object) {
        calls.push({ resource: resource.plural, object, options });
        for (const warning of warnings) (options as WriteOptions).onWarning?.(warning);
        const answer = left.shift();
        if (answer === undefined) return Promise.resolve(object);
        return Promise.reject(new KubeError({ status: 0, message: 'no', ...answer }));
      },
    };
  }

  const attempt = (from: ReturnType<typeof client>) => podTrialsIn(from as never).tryPod(pod, noSignal);

  it('are dry runs, so no pod comes of them', async () => {
    const api = client();
    expect(await attempt(api)).toEqual({ kind: 'accepted' });
    expect(api.calls).toMatchObject([{ resource: 'pods', object: pod, options: { dryRun: true } }]);
  });

  it('name the fields that pods do not have, each once, whatever else the API server says', async () => {
    const causes = [{ field: 'spec.containers', message: 'Required value', reason: 'FieldValueRequired' }];
    const api = client({ status: 0 }, { status: 422, reason: 'Invalid', causes });
    api.warnings.push('unknown field "spec.containers[0].enviroment"', 'spec.foo: deprecated since v1.11');
    expect(await attempt(api)).toEqual({ kind: 'refused', causes, unknown: ['spec.containers[0].enviroment'] });
    expect(api.calls).toMatchObject([{ options: { fieldValidation: 'Warn' } }, {}]);
  });

  it('are refused with the causes of the API server', async () => {
    const causes = [{ field: 'spec.containers', message: 'Required value', reason: 'FieldValueRequired' }];
    expect(await attempt(client({ status: 422, reason: 'Invalid', causes }))).toEqual({ kind: 'refused', causes });
  });

  it('are inconclusive when another webhook refused first, or when the right to them is missing', async () => {
    for (const status of [403, 404, 422]) {
      expect(await attempt(client({ status, message: 'not today' }))).toEqual({ kind: 'unanswered', why: 'not today' });
    }
  });

  it('reject a template that cannot be decoded as a pod, after a valid pod was accepted', async () => {
    const unreadable = client({ status: 400, message: 'cannot be handled as a Pod' });
    expect(await attempt(unreadable)).toEqual({ kind: 'refused', causes: [{ message: 'cannot be handled as a Pod' }] });
    expect(unreadable.calls).toHaveLength(2);
    const noDryRuns = client({ status: 400, message: 'no dry runs' }, { status: 400, message: 'no dry runs' });
    expect(await attempt(noDryRuns)).toEqual({ kind: 'unanswered', why: 'no dry runs' });
  });

  it('are repeated once when there is no answer, and then fail', async () => {
    expect(await attempt(client({ status: 0 }))).toEqual({ kind: 'accepted' });
    await expect(attempt(client({ status: 0 }, { status: 0 }))).rejects.toThrow(LookUpFailed);
    await expect(attempt(client({ status: 503, message: 'busy' }))).rejects.toThrow(
      'Cannot check the pod template by a dry run: busy',
    );
  });
});
