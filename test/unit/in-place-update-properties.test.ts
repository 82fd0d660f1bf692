import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { JsonObject } from '../../api/base/json.ts';
import { launchBarrierEnv } from '../../api/container-launch-priority.ts';
import type { EnvVar, Pod } from '../../api/core/pod.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { isAtRevision, type NewRevision, newRevision, revisionLabels, templateOf } from '../../api/fleet/revision.ts';
import { expectedEnvHash } from '../../api/in-place/env-hash.ts';
import { isInGrace } from '../../api/in-place/grace.ts';
import { stateOf } from '../../api/in-place/state.ts';
import { containersOf } from '../../api/in-place/work.ts';
import { isInPlaceComplete } from '../../plan/fleet/in-place/completion.ts';
import { decideInPlace, type PodWrite, refreshInPlace, startInPlace } from '../../plan/fleet/in-place/update.ts';
import { aPod } from '../support/objects/pod.ts';
import { ConflictError, SimulatedPod } from '../support/simulated-pod.ts';

const gates = { ...parseFeatureGates(), InPlaceWorkloadVerticalScaling: true };
const names = ['a', 'b'];
const startMs = Date.parse('2026-11-21T06:00:00Z');

/** A template by what can be changed in place: numbers stand for images, values and quantities. */
interface Look {
  readonly images: readonly number[];
  /** Values of the annotations x and y, and of the label z. */
  readonly metadata: readonly number[];
  readonly cpu: readonly number[];
}

/** The fixed properties of the pod, which no update changes. */
interface Make {
  readonly priorities: readonly (number | undefined)[];
  /** Which container refers to which piece of metadata. */
  readonly sees: readonly (readonly string[])[];
  readonly graceSeconds: number;
  readonly canResize: boolean;
  /** Without one no hashes are reported. */
  readonly daemon: boolean;
  /**
   * Whether the kubelet's status may be outdated. Then the template changes between updates only: otherwise it would be
   * unknown which of two images a container has.
   */
  readonly lags: boolean;
}

type Event =
  /** The controller makes a pass; it may read an old copy, get a conflict, or crash after some writes. */
  | { readonly kind: 'pass'; readonly staleBy: number; readonly overtakenAfter: number; readonly diesAfter: number }
  | { readonly kind: 'swap' | 'ready' | 'resize' | 'refresh' | 'crash'; readonly container: number }
  | { readonly kind: 'status' | 'report' }
  | { readonly kind: 'elapse'; readonly seconds: number }
  | { readonly kind: 'template'; readonly revision: number };

const digit = fc.integer({ min: 1, max: 2 });
const image = fc.integer({ min: 1, max: 3 });
const look: fc.Arbitrary<Look> = fc.record({
  images: fc.tuple(image, image),
  metadata: fc.tuple(digit, digit, digit),
  cpu: fc.tuple(digit, digit),
});
const references = ["metadata.annotations['x']", "metadata.annotations['y']", "metadata.labels['z']"];
const make: fc.Arbitrary<Make> = fc.record({
  priorities: fc.tuple(...names.map(() => fc.option(fc.integer({ min: -1, max: 1 }), { nil: undefined }))),
  sees: fc.tuple(...names.map(() => fc.subarray(references, { maxLength: 2 }))),
  graceSeconds: fc.constantFrom(0, 0, 5),
  canResize: fc.boolean(),
  daemon: fc.constantFrom(true, true, false),
  lags: fc.boolean(),
});
const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('pass' as const),
      staleBy: fc.constantFrom(0, 0, 0, 1, 2),
      overtakenAfter: fc.constantFrom(9, 9, 9, 0, 1),
      diesAfter: fc.constantFrom(9, 9, 9, 0, 1, 2),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constantFrom('swap', 'swap', 'ready', 'ready', 'resize', 'refresh', 'crash' as const),
      container: fc.integer({ min: 0, max: names.length - 1 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom('status' as const, 'report' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('elapse' as const), seconds: fc.integer({ min: 1, max: 6 }) }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('template' as const), revision: fc.nat({ max: 3 }) }) },
);

function templateOfLook({ images, metadata, cpu }: Look, { sees }: Make): JsonObject {
  return {
    metadata: {
      labels: { app: 'web', z: `v${metadata[2]}` },
      annotations: { x: `v${metadata[0]}`, y: `v${metadata[1]}`, fixed: 'v' },
    },
    spec: {
      containers: names.map((name, index) => ({
        name,
        image: `${name}:${images[index]}`,
        resources: { requests: { cpu: `${cpu[index]}00m` }, limits: { cpu: '1', memory: '1Gi' } },
        env: (sees[index] ?? []).map((fieldPath, number) => ({
          name: `E${number}`,
          valueFrom: { fieldRef: { fieldPath } },
        })),
      })),
    },
  };
}

function revisionOf(shape: Look, made: Make, number: number): NewRevision {
  const owner = { apiVersion: 'apps.kruise.io/v1beta1', kind: 'CloneSet', namespace: 'shop', name: 'web', uid: 'u' };
  return newRevision({ ...owner, template: templateOfLook(shape, made) }, number);
}

/** The pod as it was created from a revision, with the barriers that admission adds. */
function podOf(revision: NewRevision, made: Make): Pod {
  const { metadata, spec } = JSON.parse(JSON.stringify(templateOf(revision))) as Pod;
  return aPod({
    metadata: {
      name: 'web-1',
      uid: 'u-1',
      creationTimestamp: '2026-11-21T05:00:00Z',
      labels: { ...metadata.labels, ...revisionLabels(revision.metadata.name, gates) },
      annotations: { ...metadata.annotations },
    },
    spec: {
      ...spec,
      readinessGates: [{ conditionType: 'InPlaceUpdateReady' }],
      containers: spec.containers.map((container, index) => ({
        ...container,
        env: [...(container.env ?? []), ...barrier(made.priorities[index])],
      })),
    },
  });
}

function barrier(priority: number | undefined): readonly EnvVar[] {
  if (priority === undefined) return [];
  const configMapKeyRef = { name: 'web-1-barrier', key: `p_${priority}` };
  return [{ name: launchBarrierEnv, valueFrom: { configMapKeyRef } }];
}

/** A pod, its writers, and the invariants, which are checked at each write. */
class Play {
  readonly world: SimulatedPod;
  readonly #made: Make;
  readonly #revisions: readonly NewRevision[];
  readonly #seen: Pod[] = [];
  #target: NewRevision;

  constructor(made: Make, looks: readonly Look[]) {
    this.#made = made;
    this.#revisions = looks.map((shape, index) => revisionOf(shape, made, index + 1));
    this.#target = this.#revision(0);
    this.world = new SimulatedPod(podOf(this.#target, made), startMs);
    if (made.daemon) this.world.report();
  }

  happen(what: Event): void {
    const name = 'container' in what ? (names[what.container] ?? '') : '';
    switch (what.kind) {
      case 'pass':
        this.#pass(what);
        break;
      case 'swap':
        this.world.swapImage(name);
        break;
      case 'ready':
        this.world.becomeReady(name);
        break;
      case 'resize':
        this.world.resize(name);
        break;
      case 'refresh':
        if (this.#made.daemon) this.world.refreshEnvironment(name);
        break;
      case 'crash':
        this.world.crash(name);
        break;
      case 'status':
        this.world.postStatus();
        break;
      case 'report':
        if (this.#made.daemon) this.world.report();
        break;
      case 'elapse':
        this.world.nowMs += what.seconds * 1000;
        break;
      case 'template':
        if (!this.#made.lags || this.isSettled()) this.#target = this.#revision(what.revision);
    }
    if (!this.#made.lags) this.world.postStatus();
  }

  /** From now on there are no failures. Returns whether the pod reached its goal. */
  settle(): boolean {
    for (let round = 0; round < 120 && !this.isSettled(); round++) {
      this.happen({ kind: 'pass', staleBy: 0, overtakenAfter: 9, diesAfter: 9 });
      for (const container of names.keys()) {
        for (const kind of ['swap', 'resize', 'refresh', 'ready'] as const) this.happen({ kind, container });
      }
      this.happen({ kind: 'status' });
      this.happen({ kind: 'report' });
      this.happen({ kind: 'elapse', seconds: 1 });
    }
    return this.isSettled();
  }

  isSettled(): boolean {
    const { pod } = this.world;
    const wanted = podOf(this.#target, this.#made);
    const images = (of: Pod) => of.spec.containers.map(({ image, resources }) => [image, resources]);
    const labels = (of: Pod) => [of.metadata.labels?.z, of.metadata.annotations?.x, of.metadata.annotations?.y];
    return (
      this.#isAtTarget(pod) &&
      this.#openWork().length === 0 &&
      this.world.condition('InPlaceUpdateReady')?.status === 'True' &&
      JSON.stringify([images(pod), labels(pod)]) === JSON.stringify([images(wanted), labels(wanted)])
    );
  }

  /** Why the pod differs from its record, by looking into the containers. */
  #openWork(): readonly string[] {
    const { pod } = this.world;
    const state = stateOf(pod);
    const waiting = state.kind === 'value' ? containersOf(state.value.next) : [];
    return [
      ...(isInGrace(pod) ? ['grace'] : []),
      ...waiting.map((name) => `${name} waits for its batch`),
      ...names.flatMap((name) => this.#openWorkOf(name)),
    ];
  }

  #openWorkOf(name: string): readonly string[] {
    const container = this.world.pod.spec.containers.find((candidate) => candidate.name === name);
    const instance = this.world.instances.get(name);
    if (container === undefined || instance === undefined) return [`${name} is gone`];
    const isStale = this.#made.daemon && instance.envHash !== expectedEnvHash(container, this.world.pod.metadata);
    return [
      ...(instance.image === container.image ? [] : [`${name} runs ${instance.image}`]),
      ...(isStale ? [`${name} has the environment of old`] : []),
      ...(JSON.stringify(instance.resources) === JSON.stringify(container.resources) ? [] : [`${name} is not resized`]),
    ];
  }

  #pass({ staleBy, overtakenAfter, diesAfter }: Event & { readonly kind: 'pass' }): void {
    this.#seen.push(this.world.snapshot);
    const pod = this.#seen.at(-1 - staleBy) ?? this.world.snapshot;
    const writes = this.#plan(pod);
    let { resourceVersion } = pod.metadata;
    for (const [index, { write, check }] of writes.entries()) {
      if (index >= diesAfter) return;
      if (index === overtakenAfter) this.#touch();
      try {
        const before = this.world.snapshot;
        const after = this.world.write(write, resourceVersion);
        this.#checkWrite(write, before);
        check?.();
        resourceVersion = after.metadata.resourceVersion;
      } catch (error) {
        if (error instanceof ConflictError) return;
        throw error;
      }
    }
  }

  #plan(pod: Pod): readonly { readonly write: PodWrite; readonly check?: () => void }[] {
    const { canResize, graceSeconds } = this.#made;
    const { nowMs } = this.world;
    const patchedBefore = this.#patched(pod);
    const refresh = refreshInPlace({ pod, nowMs, gates, canResize });
    switch (refresh.kind) {
      case 'broken':
        throw new Error(refresh.message);
      case 'write':
        return refresh.writes.map((write) => ({
          write,
          check: () => {
            if (refresh.step === 'intoService') expect(this.#openWork()).toEqual([]);
            if (refresh.step === 'nextBatch') this.#checkDone(patchedBefore, pod);
          },
        }));
      case 'none':
      case 'wait':
        break;
    }
    if (this.#isAtTarget(pod) || isInGrace(pod)) return [];
    const label = pod.metadata.labels?.['controller-revision-hash'];
    const oldRevision = this.#revisions.find(({ metadata }) => isAtRevision(label, metadata.name));
    const decision = decideInPlace({
      policy: 'InPlaceOnly',
      recreatesForClaims: false,
      oldRevision,
      newRevision: this.#target,
      pod,
      history: this.#revisions,
      gates: { ...gates, InPlaceUpdateEnvFromMetadata: this.#made.daemon },
    });
    if (decision.kind !== 'inPlace') throw new Error(JSON.stringify(decision));
    const revision = this.#target.metadata.name;
    const labels = revisionLabels(revision, gates);
    const { change } = decision;
    const begin = startInPlace({ pod, change, revision, labels, graceSeconds, nowMs, gates, canResize });
    return [...(begin.drain ? [begin.drain] : []), ...begin.writes].map((write) => ({ write }));
  }

  /** Nothing is stopped while the pod is in service. */
  #checkWrite(write: PodWrite, before: Pod): void {
    const stops = this.world.pod.spec.containers.some(
      ({ image }, index) => write.kind === 'pod' && image !== before.spec.containers[index]?.image,
    );
    if (stops) expect(this.world.condition('InPlaceUpdateReady')?.status).toBe('False');
  }

  #patched(pod: Pod): readonly string[] {
    const state = stateOf(pod);
    return state.kind === 'value' ? state.value.batches.flatMap(({ containers }) => containers) : [];
  }

  /** Containers of earlier batches run what was patched, and were seen ready. */
  #checkDone(containers: readonly string[], seen: Pod): void {
    const notReady = seen.status?.containerStatuses?.filter(({ name, ready }) => containers.includes(name) && !ready);
    expect(notReady).toEqual([]);
    const images = containers.map((name) => [name, this.world.instances.get(name)?.image]);
    const wanted = containers.map((name) => [name, this.world.pod.spec.containers.find((c) => c.name === name)?.image]);
    expect(images).toEqual(wanted);
  }

  #touch(): void {
    const { resourceVersion } = this.world.pod.metadata;
    this.world.write(touch(resourceVersion), resourceVersion);
  }

  #isAtTarget(pod: Pod): boolean {
    return isAtRevision(pod.metadata.labels?.['controller-revision-hash'], this.#target.metadata.name);
  }

  #revision(index: number): NewRevision {
    const revision = this.#revisions[index % this.#revisions.length];
    if (revision === undefined) throw new Error('there is no revision');
    return revision;
  }
}

/** Another client's change, which makes the controller's next write conflict. */
function touch(version: string): PodWrite {
  return { kind: 'pod', patch: { metadata: { annotations: { 'example.com/touched': version } } } };
}

describe('an in-place update, whatever happens', () => {
  const looks = fc.array(look, { minLength: 2, maxLength: 4 });

  it('ends with the pod as its last template wants it, and never says so before it is true', () => {
    fc.assert(
      fc.property(make, looks, fc.array(event, { maxLength: 100, size: 'max' }), (made, shapes, events) => {
        const play = new Play(made, shapes);
        for (const what of events) play.happen(what);
        if (!made.lags) play.happen({ kind: 'template', revision: shapes.length - 1 });
        const settled = play.settle();
        if (!settled) throw new Error(JSON.stringify(play.world.pod, null, 1));
        play.happen({ kind: 'status' });
        play.happen({ kind: 'report' });
        expect(isInPlaceComplete(play.world.pod, gates)).toBe(true);
      }),
      { numRuns: 150 },
    );
  });
});
