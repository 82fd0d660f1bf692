import { describe, expect, it } from '@jest/globals';
import { Registry } from 'prom-client';
import { fairShares } from '../../api/base/fair-shares.ts';
import { jsonBytes } from '../../api/base/json-bytes.ts';
import { isTooLarge } from '../../api/core/failure.ts';
import { handlerHash } from '../../api/core/probe.ts';
import type { NodePodProbeStatus, PodProbe } from '../../api/node-pod-probe/types.ts';
import { withinMessageRoom } from '../../daemon/probes/message-room.ts';
import { startProbes } from '../../daemon/probes/start.ts';
import { KubeError, toKubeError } from '../../kube/failures.ts';
import { fittingWork, listRoom } from '../../plan/probes/probe-room.ts';
import { nodeList } from '../support/pod-probes.ts';
import { waitFor } from '../support/wait.ts';

describe('fair shares', () => {
  it('give what is wanted as long as there is enough, and else no more than an equal part to those who want most', () => {
    const wanted = new Map([
      ['much', 1_000],
      ['little', 10],
      ['more', 500],
    ]);
    expect(fairShares(wanted, 2_000)).toEqual(wanted);
    expect(fairShares(wanted, 210)).toEqual(
      new Map([
        ['little', 10],
        ['more', 100],
        ['much', 100],
      ]),
    );
  });
});

/** A pod with so many probes of a marker, each with a command of so many bytes. */
function pod(namespace: string, name: string, bytes: number, count = 1, marker = 'game'): PodProbe {
  const probes = Array.from({ length: count }, (_, index) => ({
    name: `${marker}#${index}`,
    containerName: 'app',
    probe: { exec: { command: ['x'.repeat(bytes)] } },
  }));
  return { name, namespace, uid: `${namespace}-${name}`, IP: '10.0.0.1', probes };
}

function pods(namespace: string, count: number, bytes: number): readonly PodProbe[] {
  return Array.from({ length: count }, (_, index) => pod(namespace, `web-${String(index).padStart(3, '0')}`, bytes));
}

function of(namespace: string, podProbes: readonly PodProbe[]): readonly PodProbe[] {
  return podProbes.filter((one) => one.namespace === namespace);
}

describe('H5: the work list of a node', () => {
  it('is what the markers want, where it has room', () => {
    const usual = Array.from({ length: 250 }, (_, index) => pod('shop', `web-${index}`, 100, 3));
    expect(fittingWork(usual, [])).toEqual({ podProbes: usual, leftOut: [] });
  });

  it('leaves out what one namespace has too much of, and nothing of another', () => {
    const greedy = pods('greedy', 110, 30_000);
    const shop = pods('shop', 110, 500);
    const { podProbes, leftOut } = fittingWork([...greedy, ...shop], []);
    expect(of('shop', podProbes)).toEqual(shop);
    expect(of('greedy', podProbes).length).toBeGreaterThan(15);
    expect(jsonBytes(podProbes)).toBeLessThanOrEqual(listRoom);
    expect(leftOut).toHaveLength(110 - of('greedy', podProbes).length);
    expect(leftOut[0]).toMatchObject({ namespace: 'greedy', marker: 'game', reason: 'NodeListFull' });
  });

  it('leaves out what one marker has too much of, and nothing of another of its namespace', () => {
    const both = pods('shop', 110, 30_000).map((one): PodProbe => {
      const small = pod('shop', one.name, 10, 1, 'small').probes ?? [];
      return { ...one, probes: [...(one.probes ?? []), ...small] };
    });
    const { podProbes, leftOut } = fittingWork(both, []);
    const names = podProbes.flatMap(({ probes = [] }) => probes.map(({ name }) => name));
    expect(names.filter((name) => name.startsWith('small#'))).toHaveLength(110);
    expect(new Set(leftOut.map(({ marker }) => marker))).toEqual(new Set(['game']));
  });

  it('goes on with what it has, whatever comes later under an earlier name', () => {
    const before = fittingWork(pods('shop', 110, 30_000), []).podProbes;
    const early = pod('shop', 'a-first', 30_000);
    const { podProbes, leftOut } = fittingWork([early, ...pods('shop', 110, 30_000)], before);
    expect(podProbes).toEqual(before);
    expect(leftOut.map(({ pod: name }) => name)).toContain('a-first');
  });

  it('has room for the results of thousands of the smallest probes in the same object', () => {
    const smallest = Array.from({ length: 500 }, (_, index) => pod('greedy', `p${index}`, 1, 64));
    const { podProbes } = fittingWork(smallest, []);
    const result = {
      ...{ state: 'Succeeded', lastProbeTime: '2026-01-01T00:00:20Z', lastTransitionTime: '2026-01-01T00:00:20Z' },
      ...{ message: '', containerID: 'a'.repeat(64), handlerHash: 'ffffffff' },
    };
    const podProbeStatuses = podProbes.map(({ name, namespace, uid, probes = [] }) => ({
      ...{ name, namespace, uid, probeStates: probes.map((probe) => ({ name: probe.name, ...result })) },
    }));
    expect(jsonBytes({ spec: { podProbes }, status: { podProbeStatuses } })).toBeLessThanOrEqual(listRoom);
  });

  it('H6: has no more than 64 probes of a pod, those that it has already first', () => {
    const many = pod('shop', 'web', 10, 100);
    const { podProbes, leftOut } = fittingWork([many], []);
    expect(podProbes[0]?.probes).toEqual(many.probes?.slice(0, 64));
    expect(leftOut).toHaveLength(36);
    expect(leftOut[0]?.reason).toBe('TooManyProbes');
    const present = [{ ...many, probes: many.probes?.slice(90) ?? [] }];
    const names = fittingWork([many], present).podProbes[0]?.probes?.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['game#0', 'game#53', 'game#99']));
    expect(names).not.toContain('game#54');
  });
});

describe('H5: the results of a node', () => {
  const results = (namespace: string, count: number, message: string): NodePodProbeStatus => ({
    podProbeStatuses: Array.from({ length: count }, (_, index) => ({
      ...{ name: `web-${index}`, namespace, uid: `${namespace}-${index}` },
      probeStates: [{ name: 'game#idle', state: 'Succeeded', message }],
    })),
  });

  it('keep their messages where they have room', () => {
    const status = results('shop', 300, 'x'.repeat(1_024));
    expect(withinMessageRoom(status)).toBe(status);
  });

  it('have shorter messages where one namespace has too many, and those of others stay', () => {
    // a control character takes six bytes as JSON
    const greedy = results('greedy', 1_000, '\u0001'.repeat(1_024));
    const shop = results('shop', 20, 'no players');
    const podProbeStatuses = [...(greedy.podProbeStatuses ?? []), ...(shop.podProbeStatuses ?? [])];
    const cut = withinMessageRoom({ podProbeStatuses }).podProbeStatuses ?? [];
    expect(cut.slice(1_000)).toEqual(shop.podProbeStatuses);
    const messages = cut.map(({ probeStates }) => probeStates?.[0]?.message ?? '');
    expect(jsonBytes(messages.join(''))).toBeLessThanOrEqual(384 * 1024);
    expect(messages[0]?.length).toBeGreaterThan(50);
  });

  it('are reported without messages when the API server refuses them for their size', async () => {
    const bodies: NodePodProbeStatus[] = [];
    const hash = handlerHash({ exec: { command: ['true'] } });
    const state = { name: 'game#idle', state: 'Succeeded', message: 'long', containerID: 'id', handlerHash: hash };
    const podProbeStatuses = [{ name: 'web-1', namespace: 'shop', uid: 'u', probeStates: [state] }];
    const probes = [{ name: 'game#idle', containerName: 'app', probe: { exec: { command: ['true'] } } }];
    const podProbes = [
      { name: 'web-1', namespace: 'shop', uid: 'u', probes },
      { name: 'gone', namespace: 'shop', uid: 'v', probes },
    ];
    const before = nodeList(podProbes, { podProbeStatuses });
    let now = before;
    let changed = () => {};
    const started = startProbes({
      kube: {
        create: () => Promise.reject(new Error('no Events here')),
        patch: ((
          _resource: unknown,
          _ref: unknown,
          _type: unknown,
          body: readonly { op: string; path: string; value: unknown }[],
        ) => {
          const [test, add] = body;
          expect(test).toEqual({ op: 'test', path: '/metadata/uid', value: before.metadata.uid });
          bodies.push(add?.value as NodePodProbeStatus);
          if (bodies.length > 1) return Promise.resolve({});
          return Promise.reject(new KubeError({ status: 500, message: 'etcdserver: request is too large' }));
        }) as never,
      },
      cache: {
        byName: () => now,
        onChange: (listener) => {
          changed = listener;
          return () => undefined;
        },
      },
      nodeName: 'node-1',
      runtime: () => undefined,
      ipOf: () => undefined,
      registry: new Registry(),
      log: { warn: () => undefined },
    });
    now = { ...before, spec: { podProbes: podProbes.slice(0, 1) } };
    changed();
    await waitFor('the second report', () => bodies.length === 2);
    await started.stop(AbortSignal.abort());
    const states = bodies.flatMap(({ podProbeStatuses = [] }) => podProbeStatuses.flatMap((one) => one.probeStates));
    expect(states).toMatchObject([
      { state: 'Succeeded', message: 'long' },
      { state: 'Succeeded', message: '' },
    ]);
  });
});

it('H5: an object that the API server refuses for its size is known as such', () => {
  const status = (code: number, message: string) => JSON.stringify({ kind: 'Status', code, message });
  const refused = 'Request entity too large: limit is 3145728';
  expect(isTooLarge(toKubeError('PATCH', 413, status(413, refused)))).toBe(true);
  for (const message of [
    'etcdserver: request is too large',
    'rpc error: code = ResourceExhausted desc = trying to send message larger than max (2101297 vs. 2097152)',
  ]) {
    expect(isTooLarge(toKubeError('PATCH', 500, status(500, message)))).toBe(true);
  }
  expect(isTooLarge(toKubeError('PATCH', 500, status(500, 'etcd is away')))).toBe(false);
});
