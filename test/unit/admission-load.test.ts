import { describe, expect, it } from '@jest/globals';
import { applyPatch, type Operation } from 'rfc6902';
import { goDurationMs } from '../../api/base/go-duration.ts';
import { parsePercent } from '../../api/base/int-or-percent.ts';
import type { JsonObject } from '../../api/base/json.ts';
import { canonicalResource } from '../../api/base/quantity.ts';
import { validateCloneSet, validateCloneSetUpdate } from '../../api/cloneset/validate.ts';
import { validateRecreateSpec, validateRecreateUpdate } from '../../api/container-recreate-request/validate.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { cloneSetRules } from '../../webhook/cloneset.ts';
import { reviewPod } from '../../webhook/pod.ts';
import { lookUpsIn } from '../../webhook/review/look-ups.ts';
import type { PodTrials } from '../../webhook/review/pod-trial.ts';
import { admissionRoute, type Review } from '../../webhook/review/review.ts';
import type { Answer } from '../../webhook/server/server.ts';
import { reviewWorkload, reviewWorkloadDefaults } from '../../webhook/workload.ts';
import { MemoryCluster } from '../support/fake-api/memory-cluster.ts';
import { cloneSetDraft } from '../support/objects/cloneset.ts';

// The cost of a request is measured in CPU time of this process, with a limit several times the usual value: linear
// work on a few megabytes takes some tens of milliseconds, quadratic work seconds or hours.
const mostCpuMs = 1_500;

const signal = new AbortController().signal;
const gates = parseFeatureGates();
const deletion = () => ({ kind: 'allowed' }) as const;
const accepting: PodTrials = { tryPod: () => Promise.resolve({ kind: 'accepted' }) };

/** Of the second time where the first is over the limit: it may include that the code is compiled. */
async function cpuMsOf(work: () => unknown): Promise<number> {
  const first = await cpuMsOnce(work);
  return first < mostCpuMs ? first : await cpuMsOnce(work);
}

async function cpuMsOnce(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

interface Reviewed {
  readonly allowed: boolean;
  readonly patch?: string;
  readonly warnings?: readonly string[];
  readonly status?: {
    readonly code: number;
    readonly message: string;
    readonly details: { readonly causes: object[] };
  };
}

/** One review, from the bytes of its body to the bytes of its answer. */
async function answerTo(
  review: Review,
  request: object,
): Promise<{ response: Reviewed; cpuMs: number; bytes: number }> {
  const body = JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: { uid: 'r', operation: 'CREATE', namespace: 'shop', kind: { group: '', kind: 'X' }, ...request },
  });
  let text = '';
  const cpuMs = await cpuMsOf(async () => {
    const route = admissionRoute(review, { whenFailed: 'refuse' });
    text = JSON.stringify(((await route(JSON.parse(body), signal)) as Answer).body);
  });
  return { response: JSON.parse(text).response, cpuMs, bytes: text.length };
}

function patched(object: JsonObject, patch = 'W10='): JsonObject {
  const result = structuredClone(object);
  const operations = JSON.parse(Buffer.from(patch, 'base64').toString()) as Operation[];
  expect(applyPatch(result, operations).filter((failure) => failure !== null)).toEqual([]);
  return result;
}

function variables(count: number): JsonObject[] {
  return Array.from({ length: count }, (_, index) => ({ name: `NAME_${index}`, value: `value-${index}` }));
}

function set(spec: object, version = 'v1beta1'): JsonObject {
  return cloneSetDraft({ version, metadata: { uid: 'set-uid' }, spec });
}

describe('the cost of a review', () => {
  it('H1: a pod of 20 containers with 1,000 variables each gets its barriers in bounded time and bytes', async () => {
    const pod: JsonObject = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'web', annotations: { 'apps.kruise.io/container-launch-priority': 'Ordered' } },
      spec: {
        containers: Array.from({ length: 20 }, (_, at) => ({ name: `c${at}`, image: 'app:1', env: variables(1_000) })),
      },
    };
    const sent = JSON.stringify(pod).length;
    const { response, cpuMs, bytes } = await answerTo(reviewPod(gates), { object: pod });
    expect(cpuMs).toBeLessThan(mostCpuMs);
    expect(bytes).toBeLessThan(2 * sent);
    const { containers } = patched(pod, response.patch).spec as unknown as {
      containers: { env: { name: string }[] }[];
    };
    expect(containers).toHaveLength(20);
    for (const { env } of containers) {
      expect(env).toHaveLength(1_001);
      expect(env[1_000]?.name).toBe('KRUISE_CONTAINER_BARRIER');
    }
  });

  it('H1: a set of 400 containers gets its defaults in bounded time and bytes', async () => {
    const containers = Array.from({ length: 400 }, (_, at) => ({ name: `c${at}`, image: 'app:1', env: variables(50) }));
    const object = set({ template: { metadata: { labels: { app: 'web' } }, spec: { containers } } });
    const sent = JSON.stringify(object).length;
    const { response, cpuMs, bytes } = await answerTo(reviewWorkloadDefaults(cloneSetRules, gates), { object });
    expect(cpuMs).toBeLessThan(mostCpuMs);
    expect(bytes).toBeLessThan(2 * sent);
    expect(JSON.stringify(patched(object, response.patch)).match(/"terminationMessagePath"/g)).toHaveLength(400);
  });

  it('H1: a review of 3 MB with the old and the new set is defaulted and checked in bounded time', async () => {
    const containers = Array.from({ length: 250 }, (_, at) => ({
      name: `c${at}`,
      image: 'app:1',
      env: variables(140),
    }));
    const oldObject = set({ template: { metadata: { labels: { app: 'web' } }, spec: { containers } } });
    const object = structuredClone(oldObject) as JsonObject & {
      spec: { template: { spec: { containers: object[] } } };
    };
    Object.assign(object.spec.template.spec.containers[249] ?? {}, { image: 'app:2' });
    expect(JSON.stringify({ object, oldObject }).length).toBeGreaterThan(2_500_000);
    const update = { operation: 'UPDATE', object, oldObject };

    const defaulted = await answerTo(reviewWorkloadDefaults(cloneSetRules, gates), update);
    expect(defaulted.cpuMs).toBeLessThan(mostCpuMs);
    const judge = reviewWorkload(cloneSetRules, {
      gates,
      lookUps: lookUpsIn(new MemoryCluster().client()),
      trials: accepting,
      deletion,
    });
    const judged = await answerTo(judge, update);
    expect(judged.cpuMs).toBeLessThan(mostCpuMs);
    expect(judged.response.allowed).toBe(true);
  });

  it('H1: the patch contains no field that a mutator has not changed', async () => {
    const object = set({ revisionHistoryLimit: 3, template: { metadata: { labels: { app: 'web' } } } });
    const { response } = await answerTo(reviewWorkloadDefaults(cloneSetRules, gates), {
      operation: 'UPDATE',
      object,
      oldObject: object,
    });
    const operations = JSON.parse(Buffer.from(response.patch ?? '', 'base64').toString()) as Operation[];
    const paths = operations.map(({ path }) => path);
    expect(paths).toContain('/spec/replicas');
    expect(paths.filter((path) => path.startsWith('/spec/template') || path.startsWith('/spec/revision'))).toEqual([]);
  });
});

describe('texts and lists of users are processed in linear time', () => {
  const digits = '1'.repeat(1_000_000);

  it.each([
    ['partition', set({ updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: digits } } })],
    ['maxSurge', set({ updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: `${digits}x` } } })],
    [
      'resources.limits.cpu',
      set({
        template: {
          metadata: { labels: { app: 'web' } },
          spec: { containers: [{ name: 'app', image: 'a', resources: { limits: { cpu: `${digits}!` } } }] },
        },
      }),
    ],
    ['podsToDelete', set({ scaleStrategy: { podsToDelete: Array.from({ length: 100_000 }, (_, at) => `web-${at}`) } })],
    [
      'podsToDelete, each twice',
      set({ scaleStrategy: { podsToDelete: Array.from({ length: 100_000 }, (_, at) => `web-${at % 50_000}`) } }),
    ],
    [
      'scatterStrategy',
      set({
        updateStrategy: {
          rollingUpdate: { scatterStrategy: Array.from({ length: 50_000 }, (_, at) => ({ key: `k${at}`, value: '' })) },
        },
      }),
    ],
    [
      'selector',
      set({
        selector: { matchLabels: Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`-${at}`, '-'])) },
      }),
    ],
    [
      'volumes and claims',
      set({
        volumeClaimTemplates: Array.from({ length: 10_000 }, (_, at) => ({ metadata: { name: `claim-${at}` } })),
        template: {
          metadata: { labels: { app: 'web' } },
          spec: { containers: [], volumes: Array.from({ length: 20_000 }, (_, at) => ({ name: `v${at}` })) },
        },
      }),
    ],
  ])('H2: %s of a CloneSet', async (_, object) => {
    const judge = reviewWorkload(cloneSetRules, {
      gates,
      lookUps: lookUpsIn(new MemoryCluster().client()),
      trials: accepting,
      deletion,
    });
    const bodyBytes = JSON.stringify(object).length;
    for (const request of [{ object }, { operation: 'UPDATE', object, oldObject: set({}) }]) {
      const defaulted = await answerTo(reviewWorkloadDefaults(cloneSetRules, gates), request);
      expect(defaulted.cpuMs).toBeLessThan(mostCpuMs);
      const judged = await answerTo(judge, request);
      expect(judged.cpuMs).toBeLessThan(mostCpuMs);
      // an answer names problems, but not all of them
      expect(judged.bytes).toBeLessThan(bodyBytes + 100_000);
    }
    expect(await cpuMsOf(() => validateCloneSetUpdate(object, object))).toBeLessThan(mostCpuMs);
    expect(await cpuMsOf(() => validateCloneSet(object))).toBeLessThan(mostCpuMs);
  });

  it.each([
    ['percentages', () => parsePercent(`${digits}x`)],
    ['percentages of digits and a dot', () => parsePercent(`${digits}.${digits}`)],
    ['quantities', () => canonicalResource(`${digits}.${digits}!`)],
    ['quantities with an exponent', () => canonicalResource(`${digits}e${digits}!`)],
    ['durations', () => goDurationMs(`${digits}x`)],
    [
      'duplicates of containers',
      () => validateRecreateSpec({ podName: 'a', containers: Array(256).fill({ name: 'a' }) }),
    ],
    [
      'changes deep in a spec',
      () => {
        let [before, after]: [JsonObject, JsonObject] = [{ value: digits }, { value: `${digits}1` }];
        for (let depth = 0; depth < 1_000; depth++) [before, after] = [{ spec: before }, { spec: after }];
        return validateRecreateUpdate(before, after);
      },
    ],
  ])('H2: %s', async (_, work) => {
    expect(await cpuMsOf(work)).toBeLessThan(mostCpuMs);
  });
});
